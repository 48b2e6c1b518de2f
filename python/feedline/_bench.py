"""What a mark costs: `python -m feedline._bench`."""

import sys
import time

import feedline
from feedline import _channel


def _each(run: "object", times: int = 50_000) -> float:
    """CPU nanoseconds a call, the least of fifteen rounds: what else runs on the machine does not count."""
    rounds = []
    for _ in range(15):
        began = time.thread_time_ns()
        for _ in range(times):
            run()  # type: ignore[operator]
        rounds.append((time.thread_time_ns() - began) / times)
    return min(rounds)


def _region() -> None:
    with feedline.region("bench"):
        pass


def _nothing() -> None:
    pass


def main() -> None:
    """Prints CPU nanoseconds a mark, with and without a reader, less the cost of an empty call."""
    empty = _each(_nothing)
    quiet = {"region": _each(_region) - empty, "step": _each(feedline.step) - empty}
    feedline.listening()
    if len(_channel.words) > _channel._HEADER_WORDS:
        _channel.words[_channel._LISTEN] = _channel.FOR_EVER  # type: ignore[index]
    heard = {"region": _each(_region) - empty, "step": _each(feedline.step) - empty}
    print("python", sys.version.split()[0])
    for name in quiet:
        print(f"{name:<8} {quiet[name]:6.0f} ns nobody listens   {heard[name]:6.0f} ns counted")


if __name__ == "__main__":
    main()
