"""Is this machine fit to measure on? Its noise, its peaks, its settings and its other load, and what to change."""
