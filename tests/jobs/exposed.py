"""Why a trainer waited: its waits, intersected with what the maker of the awaited batch was at.

Only exposed time counts. A wait from the call of `next()` to the batch in hand is cut into spans:

1. While the worker that makes the awaited batch is in a phase of it, the wait has that phase's
   cause; between two phases it keeps the cause of the one before.
2. The part of a phase in which its thread queued for a core is `contention` if the injector takes
   the cores (quota, affinity, neighbours, a storm of threads). A job that only fills the machine
   with its own samples queues for itself: there it keeps the phase's cause.
3. Until a worker that was just started has made its first batch: `startup`. Before another one has
   begun: `handoff`.
4. After the batch is complete and before the trainer has it: `handoff` (pickling, queues, threads
   that move batches, unpickling, shared memory); of that, what the threads that hand over queued
   for a core is `contention`, by rule 2.
5. Head of line, unless cores are taken or the worker is new: while a later batch is complete
   already, and at least half of the other workers have nothing left to do, the wait is `handoff`,
   whatever the slow one is at. With the others still at work, order costs nothing: the loader as a
   whole is too slow, for the phase's cause.
"""


def spans(start, end, batch, others=(), ordered=True, contended=False, queued=0):
    """Cuts the wait [start, end) for `batch` into (cause, start, end), in order and without gaps.

    `others`: the batches before and after that can matter, as (number relative to this one, Batch).
    `queued`: how long the trainer itself queued for a core in the wait.
    """
    if end <= start:
        return []
    if batch is None:
        return [("unknown", start, end)]
    cut = []
    at = start
    for cause, until in maker(batch, contended):
        until = min(until, end)
        if until > at:
            cut.append((cause, at, until))
            at = until
    late = min(end - at, queued + handing(batch, others)) if contended and end > at else 0
    if end - late > at:
        cut.append(("handoff", at, end - late))
    if late:
        cut.append(("contention", end - late, end))
    line = held_up(start, min(end, batch.done), batch, others) if ordered and not contended and not batch.first else []
    return joined(overlaid(cut, line))


def handing(batch, others):
    """How long the threads that handed the batch over queued: until their worker's next batch was complete."""
    after = next((other for number, other in others if number > 0 and other and other.worker == batch.worker), None)
    return max(0, after.beside - batch.beside) if after else 0


def maker(batch, contended):
    """What the maker of a batch was at, as (cause, until), from the beginning of time to its end."""
    if batch.first:
        yield "startup", batch.done
        return
    yield "handoff", batch.begun
    for number, phase in enumerate(batch.phases):
        if number:
            yield batch.phases[number - 1].cause, phase.start
        in_queue = min(phase.queued, phase.end - phase.start) if contended else 0
        yield phase.cause, phase.end - in_queue
        if in_queue:
            yield "contention", phase.end


def held_up(start, end, batch, others):
    """The parts of [start, end) in which the line stands behind `batch`, as (start, end)."""
    later = [other.done for number, other in others if number > 0 and other is not None]
    ready = min(later, default=end)
    known = [other for _, other in others if other is not None and other.worker != batch.worker]
    edges = {max(start, ready), end}
    for other in known:
        edges.update(at for at in (other.begun, other.done) if max(start, ready) < at < end)
    edges = sorted(edges)
    found = []
    for a, b in zip(edges, edges[1:]):
        there = {other.worker for other in known if other.begun <= a}
        busy = {other.worker for other in known if other.begun <= a < other.done}
        if ready <= a and there and 2 * len(busy) <= len(there):
            found.append((a, b))
    return found


def overlaid(cut, parts):
    """`cut` with `handoff` in the given parts."""
    for a, b in parts:
        new = []
        for cause, start, end in cut:
            for piece in ((cause, start, min(end, a)), ("handoff", max(start, a), min(end, b)), (cause, max(start, b), end)):
                if piece[2] > piece[1]:
                    new.append(piece)
        cut = new
    return cut


def joined(cut):
    """Neighbours of one cause as one span."""
    out = []
    for cause, start, end in cut:
        if out and out[-1][0] == cause and out[-1][2] == start:
            out[-1] = (cause, out[-1][1], end)
        else:
            out.append((cause, start, end))
    return out
