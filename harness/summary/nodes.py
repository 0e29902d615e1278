"""Runs measured on several hosts: their machines as one, and notices about which host measured what."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.case import SETTINGS
from harness.machine import unlike
from harness.summary.line import Line

Setting = tuple[Any, ...]


def machine_of(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The machine of the first host, with the names of all hosts as `host`."""
    first = next(iter(hosts.values()))
    return {**first, "host": ", ".join(hosts)}


def told(lines: Sequence[Line], hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Notices for a run of several hosts; none for a single host.

    One notice says how many cases each host measured. Further notices warn if different machines measured cases with
    the same settings, because such cases are compared with each other.
    """
    settings: dict[str, dict[Setting, int]] = {}
    for line in lines:
        if line.host is not None:
            setting = tuple(getattr(line, name) for name in SETTINGS)
            of_host = settings.setdefault(line.host, {})
            of_host[setting] = of_host.get(setting, 0) + 1
    if len(settings) < 2:
        return []
    varied = _varied([setting for of_host in settings.values() for setting in of_host])
    who = [
        f"{host}: {sum(of_host.values())} cases{_names(of_host, varied)}" for host, of_host in sorted(settings.items())
    ]
    return [f"measured by {'; '.join(who)}", *_mixed(settings, hosts, varied)]


def _mixed(
    settings: Mapping[str, Mapping[Setting, int]], hosts: Mapping[str, Mapping[str, Any]], varied: Sequence[int]
) -> list[str]:
    sentences = []
    for setting in dict.fromkeys(setting for of_host in settings.values() for setting in of_host):
        names = sorted({name for host, of_host in settings.items() if setting in of_host for name in host.split(",")})
        known = [(name, hosts[name]) for name in names if name in hosts]
        differences = [(name, unlike(known[0][1], other)) for name, other in known[1:]]
        for name, differing in differences:
            if differing:
                of = _names({setting: 1}, varied).strip(" ()")
                sentences.append(
                    f"{of + ': ' if of else ''}{known[0][0]} and {name} are unlike machines "
                    f"({'; '.join(one.replace(' before and ', ' and ').removesuffix(' now') for one in differing)}): "
                    "laws, slopes and comparisons mix what both have measured"
                )
    return sentences


def _varied(settings: Sequence[Setting]) -> list[int]:
    """The positions in a setting whose values differ."""
    return [place for place in range(len(SETTINGS)) if len({setting[place] for setting in settings}) > 1]


def _names(settings: Mapping[Setting, int], varied: Sequence[int]) -> str:
    texts = [" ".join(f"{SETTINGS[place]}={setting[place]}" for place in varied) for setting in settings]
    return f" ({', '.join(texts)})" if varied else ""
