"""Schedule of updates by the replay ratio."""

import math

ROUNDING = 1e-6  # rounding errors may fall below an integer


class UpdateSchedule:
    """Number of updates that are due as steps arrive; fractions carry over.

    Attributes:
        steps: environment steps counted so far.
        postponed: due updates that could not be made; they are due again with the next steps.
    """

    def __init__(self) -> None:
        self.steps = 0.0
        self.postponed = 0

    def due(self, n_steps: float, per_step: float) -> int:
        """Count steps; return the number of updates that are due now.

        Args:
            n_steps: new environment steps, a fraction if it is a mean over ranks.
            per_step: updates for each step.
        """
        before = math.floor(self.steps * per_step + ROUNDING)
        self.steps += n_steps
        postponed, self.postponed = self.postponed, 0
        return postponed + math.floor(self.steps * per_step + ROUNDING) - before
