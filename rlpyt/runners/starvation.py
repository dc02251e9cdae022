"""Warning of asynchronous runs whose optimizer does not keep up with the sampler."""

from rlpyt.utils.logging import logger

STARVED = 0.8  # fraction of the due updates below which a warning is logged
MIN_CALLS = 100  # due calls below which the comparison is too noisy


class Starvation:
    """Logs once if far fewer updates are made than the replay ratio requires.

    Args:
        due, made: calls of ``optimize_agent`` that were due and made so far.
    """

    def __init__(self, due: int, made: int) -> None:
        self._last = due, made
        self._warned = False

    def check(self, due: int, made: int, replay_ratio: float) -> None:
        """Compare the calls that were due and made since the last check.

        Args:
            due, made: total numbers of calls of ``optimize_agent``.
            replay_ratio: for the message.
        """
        (due_before, made_before), self._last = self._last, (due, made)
        expected, done = due - due_before, made - made_before
        if self._warned or expected < MIN_CALLS or done >= STARVED * expected:
            return
        self._warned = True
        logger.log(
            f"WARNING: since the last row only {done / expected:.0%} of the updates required by "
            f"replay_ratio={replay_ratio:g} were made: the optimizer does not keep up with the "
            "sampler. To make all updates, let the sampler wait (max_lead=0). Otherwise give the "
            "optimizer more threads (affinity), send parameters less often (updates_per_sync), or "
            "lower replay_ratio. This warning is logged once; see the columns ReplayRatio, "
            "OptThrottle and SamplerThrottle."
        )
