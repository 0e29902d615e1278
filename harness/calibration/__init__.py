"""Is this machine fit to measure on? Its noise, peaks, settings and other load, and what to change."""
