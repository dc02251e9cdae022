"""``check_distribution``: check that an action distribution keeps the contract."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import can_draw
from rlpyt.testing.case import Case, Claims
from rlpyt.testing.report import Report
from rlpyt.testing.trees import difference
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer

STD_ERRORS = 5  # allowed difference of a mean over samples
ATOL = 1e-3  # rounding, and small constants that keep logarithms finite
CHECKS = {
    "pickle": "can be sent to worker processes",
    "sample": "an action for each row, for any leading dimensions, which differ",
    "noise": "set_noise determines the next sample; draw is the same in torch and numpy",
    "likelihood": "[*lead], finite, with a gradient",
    "mode": "no sample is more likely",
    "ratio": "likelihood_ratio is the exponential of the difference of log_likelihood",
    "entropy": "[*lead], the mean of -log_likelihood of samples",
    "kl": "[*lead], 0 between equals, else the mean difference of log_likelihood of samples",
}


def check_distribution(
    distribution: Any,
    dist_info: Any,
    *,
    n_samples: int = 10_000,
    seed: int = 0,
    skip: Collection[str] = (),
) -> Report:
    """Check a distribution of actions: samples against likelihood, entropy and KL divergence.

    >>> import torch
    >>> from rlpyt.distributions.categorical import Categorical, DistInfo
    >>> from rlpyt.testing import check_distribution
    >>> check_distribution(Categorical(2), DistInfo(torch.tensor([[0.2, 0.8], [0.5, 0.5]]))).ok
    True

    Args:
        distribution: a `rlpyt.distributions.base.Distribution`.
        dist_info: parameters of N >= 2 different distributions, leaves [N, ...] float32.
        n_samples: number of samples of each distribution.
        seed: seed of the samples.
        skip: names of checks (``rlpyt.testing.distribution.CHECKS``) whose findings to leave out.

    Returns:
        The report, if there are no errors.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        ValueError: ``skip`` has an unknown name.
    """
    return _Case(distribution, dist_info, n_samples, skip).run(seed).conclude()


class _Case(Case):
    """The distribution under test, parameters [n, N, ...], and samples [n, N, ...] of them."""

    checks = CHECKS
    needed = ("sample", "likelihood")
    optional = ("mode", "ratio", "entropy", "kl")
    samples: Any

    def __init__(self, distribution: Any, dist_info: Any, n: int, skip: Collection[str]) -> None:
        name = f"check_distribution({type(distribution).__name__})"
        super().__init__(name, distribution, skip)
        self.rows, self.n, self.N = dist_info, n, len(leaves_of(dist_info)[0])
        self.dist_info = buffer_func(dist_info, lambda x: x.expand(n, *x.shape))
        self.others = buffer_func(dist_info, lambda x: x.roll(1, 0))  # other distributions
        parts = getattr(distribution, "parts", (distribution,))
        limits = [getattr(part, name, None) for part in parts for name in ("clip", "squash")]
        self.changes_samples = any(limit is not None for limit in limits)

    def _open(self) -> bool:
        """Report an open check, and return True, if likelihoods are not those of samples."""
        if self.changes_samples:
            self.report.open("samples are clipped or squashed: drawn values are not known")
        return self.changes_samples

    def check_sample(self) -> Claims:
        self.samples = self.part.sample(self.dist_info)
        fix = "return a tensor (or a record of tensors) with the leading dimensions of dist_info."
        few = self.part.sample(self.rows)
        for tree, lead in ((self.samples, (self.n, self.N)), (few, (self.N,))):
            for leaf in leaves_of(tree):
                what = f"samples have shape {tuple(leaf.shape)} for leading dimensions {lead}"
                yield leaf.shape[: len(lead)] == lead, what, fix
        same = all(torch.equal(x, x[:1].expand_as(x)) for x in leaves_of(self.samples))
        yield not same, "all samples are equal", "draw them, or use noise."

    def check_noise(self) -> Claims:
        spec = getattr(self.part, "noise_spec", None)
        if spec is None:
            self.report.note("no noise_spec: samples are drawn from torch's generator")
            return
        noise = (torch.rand if spec.kind == "uniform" else torch.randn)(self.n, self.N, *spec.shape)
        found = []
        for _ in range(2):
            self.part.set_noise(noise)
            found.append(self.part.sample(self.dist_info))
        other = difference(*found)
        fix = "take the noise that set_noise has set: self._take_noise(lead, device)."
        yield not other, f"two samples from the same noise: {other}", fix
        if not can_draw(self.part):
            self.report.note("no draw: agents do not act in numpy")
            return
        drawn = self.part.draw(numpify_buffer(self.dist_info), noise.numpy())
        pairs = zip(leaves_of(found[0]), leaves_of(drawn), strict=True)
        ok = all(np.allclose(x.numpy(), y, atol=ATOL) for x, y in pairs)
        what = "draw returns other actions for numpy arrays than for tensors"
        yield ok, what, "use operations that both have."

    def check_likelihood(self) -> Claims:
        parameters = buffer_func(self.rows, lambda x: x.clone().requires_grad_())
        x = buffer_func(self.samples, lambda leaf: leaf[0])
        found: Tensor = self.part.log_likelihood(x, parameters)
        what = f"it has shape {tuple(found.shape)}, expected {(self.N,)}"
        yield found.shape == (self.N,), what, "sum over the components of an action."
        fix = "bound logarithms and divisions, for example by adding a small number."
        yield found.isfinite().all(), "it is not finite for samples", fix
        if found.requires_grad:
            found.sum().backward()  # type: ignore[no-untyped-call]
        reached = any(x.grad is not None and x.grad.any() for x in leaves_of(parameters))
        fix = "compute it from dist_info without no_grad or detach."
        yield reached, "no gradient reaches the parameters", fix

    def check_mode(self) -> Claims:
        if self._open():
            return
        mode = self.part.log_likelihood(self.part.mode(self.rows), self.rows)
        most = self.part.log_likelihood(self.samples, self.dist_info).amax(0)
        what = f"a sample has log-likelihood {float((most - mode).max()):.3g} above the mode"
        yield (mode >= most - ATOL).all(), what, "return the action of greatest likelihood."

    def check_ratio(self) -> Claims:
        x, likelihood = buffer_func(self.samples, lambda leaf: leaf[0]), self.part.log_likelihood
        expected = (likelihood(x, self.others) - likelihood(x, self.rows)).exp()
        found = self.part.likelihood_ratio(x, self.rows, self.others)
        ok = found.shape == expected.shape and torch.allclose(found, expected, 1e-3, ATOL)
        what = f"it is {found.flatten()[0]:.4g}, but exp(new - old) is {expected.flatten()[0]:.4g}"
        yield ok, what, "divide the new likelihood by the old."

    def check_entropy(self) -> Claims:
        if self._open():
            return
        surprise = -self.part.log_likelihood(self.samples, self.dist_info)
        yield from self._mean(self.part.entropy(self.rows), surprise)

    def check_kl(self) -> Claims:
        itself = self.part.kl(self.rows, self.rows)
        what = f"between equal distributions it is {itself.tolist()}"
        yield (itself.abs() <= ATOL).all(), what, "return 0 for equals."
        if self._open():
            return
        others = buffer_func(self.dist_info, lambda x: x.roll(1, 1))
        old, new = (self.part.log_likelihood(self.samples, x) for x in (self.dist_info, others))
        yield from self._mean(self.part.kl(self.rows, self.others), old - new)

    def _mean(self, found: Tensor, terms: Tensor) -> Claims:
        """Claim that results [N] are the mean of terms [n, N]."""
        what = f"it has shape {tuple(found.shape)}, expected {(self.N,)}"
        yield found.shape == (self.N,), what, "return one number for each row, in nats."
        mean, error = terms.mean(0), terms.std(0) / self.n**0.5
        rounded = [[round(v, 4) for v in x.tolist()] for x in (found, mean)]
        what = f"it is {rounded[0]}, but samples give {rounded[1]}"
        ok = (found - mean).abs() <= STD_ERRORS * error + ATOL
        yield ok.all(), what, "derive it from the likelihood, or correct sample."
