"""``check_distribution``: check that an action distribution keeps the contract."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import can_draw
from rlpyt.testing.report import Report, Stop
from rlpyt.testing.trees import difference
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer

STD_ERRORS = 5  # allowed difference of a mean over samples
ATOL = 1e-3  # rounding, and small constants that keep logarithms finite
CHECKS = {
    "pickle": "can be sent to worker processes",
    "sample": "an action for each row, for any leading dimensions, which differ",
    "noise": "set_noise determines the next sample; draw is the same in torch and numpy",
    "mode": "no sample is more likely",
    "likelihood": "[*lead], finite, with a gradient",
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
    name = f"check_distribution({type(distribution).__name__})"
    report = Report(name, CHECKS, skip)
    with torch.random.fork_rng(devices=[]):  # keep the caller's generator
        torch.default_generator.manual_seed(seed)
        case = _Case(distribution, dist_info, report, n_samples)
        report.run("pickle", case.check_pickle)
        if report.run("sample", case.check_sample):
            report.run("noise", case.check_noise)
            if report.run("likelihood", case.check_likelihood):
                for check in ("mode", "ratio", "entropy", "kl"):
                    report.run(check, getattr(case, f"check_{check}"), NotImplementedError)
    return report.conclude()


class _Case:
    """The distribution under test, parameters [n, N, ...], and samples [n, N, ...] of them."""

    samples: Any

    def __init__(self, distribution: Any, dist_info: Any, report: Report, n_samples: int) -> None:
        self.distribution, self.report = distribution, report
        self.rows, self.n = dist_info, n_samples
        self.N = len(leaves_of(dist_info)[0])
        self.dist_info = buffer_func(dist_info, lambda x: x.expand(n_samples, *x.shape))

    def check_pickle(self) -> None:
        """Pickle the distribution."""
        try:
            serialize.dumps(self.distribution)
        except Exception as error:
            fix = "store settings only, and define the class at the top level of a module."
            self.report.error("pickle", f"{error}", fix)
            raise Stop from error

    def check_sample(self) -> None:
        """Draw samples [n, N], and [N]."""
        expect = partial(self.report.expect, check="sample", stop=True)
        self.samples = self.distribution.sample(self.dist_info)
        few = self.distribution.sample(self.rows)
        fix = "return a tensor (or a record of tensors) with the leading dimensions of dist_info."
        for tree, lead in ((self.samples, (self.n, self.N)), (few, (self.N,))):
            for leaf in leaves_of(tree):
                what = f"samples have shape {tuple(leaf.shape)} for leading dimensions {lead}"
                expect(leaf.shape[: len(lead)] == lead, what=what, fix=fix)
        same = all(torch.equal(x, x[:1].expand_as(x)) for x in leaves_of(self.samples))
        expect(not same, what="all samples are equal", fix="draw them, or use noise.")

    def check_noise(self) -> None:
        """Compare samples from the same noise, in torch and in numpy."""
        spec = getattr(self.distribution, "noise_spec", None)
        if spec is None:
            self.report.note("noise", "no noise_spec: samples are drawn from torch's generator")
            return
        noise = (torch.rand if spec.kind == "uniform" else torch.randn)(self.n, self.N, *spec.shape)
        found = []
        for _ in range(2):
            self.distribution.set_noise(noise)
            found.append(self.distribution.sample(self.dist_info))
        what = f"two samples from the same noise: {difference(*found)}"
        fix = "take the noise that set_noise has set: self._take_noise(lead, device)."
        self.report.expect(difference(*found) is None, "noise", what, fix, stop=True)
        kind: Any = type(self.distribution)
        if not can_draw(kind):
            self.report.note("noise", "no draw: agents do not act in numpy")
            return
        drawn = self.distribution.draw(numpify_buffer(self.dist_info), noise.numpy())
        pairs = zip(leaves_of(found[0]), leaves_of(drawn), strict=True)
        ok = all(np.allclose(x.numpy(), y, atol=ATOL) for x, y in pairs)
        what = "draw returns other actions for numpy arrays than for tensors"
        self.report.expect(ok, "noise", what, "use operations that both have.")

    def check_likelihood(self) -> None:
        """Evaluate the log-likelihood of samples, and its gradient."""
        expect = partial(self.report.expect, check="likelihood", stop=True)
        parameters = buffer_func(self.rows, lambda x: x.clone().requires_grad_())
        x = buffer_func(self.samples, lambda leaf: leaf[0])
        found: Tensor = self.distribution.log_likelihood(x, parameters)
        what = f"it has shape {tuple(found.shape)}, expected {(self.N,)}"
        expect(found.shape == (self.N,), what=what, fix="sum over the components of an action.")
        fix = "bound logarithms and divisions, for example by adding a small number."
        expect(found.isfinite().all(), what="it is not finite for samples", fix=fix)
        leaves = leaves_of(parameters)
        if found.requires_grad:
            found.sum().backward()  # type: ignore[no-untyped-call]
        reached = any(x.grad is not None and x.grad.any() for x in leaves)
        fix = "compute it from dist_info without no_grad or detach."
        expect(reached, what="no gradient reaches the parameters", fix=fix)

    def check_mode(self) -> None:
        """Compare the likelihood of the mode with that of all samples."""
        likelihood = self.distribution.log_likelihood
        mode = likelihood(self.distribution.mode(self.rows), self.rows)
        most = likelihood(self.samples, self.dist_info).amax(0)
        what = f"a sample has log-likelihood {float((most - mode).max()):.3g} above the mode"
        fix = "return the action of greatest likelihood."
        self.report.expect(bool((mode >= most - ATOL).all()), "mode", what, fix)

    def check_ratio(self) -> None:
        """Compare the likelihood ratio of two distributions with the likelihoods."""
        x, other = buffer_func(self.samples, lambda leaf: leaf[0]), self._shifted(self.rows)
        likelihood = self.distribution.log_likelihood
        expected = (likelihood(x, other) - likelihood(x, self.rows)).exp()
        found = self.distribution.likelihood_ratio(x, self.rows, other)
        ok = found.shape == expected.shape and torch.allclose(found, expected, 1e-3, ATOL)
        what = f"it is {found.flatten()[0]:.4g}, but exp(new - old) is {expected.flatten()[0]:.4g}"
        self.report.expect(ok, "ratio", what, "divide the new likelihood by the old.")

    def check_entropy(self) -> None:
        """Compare the entropy with the mean over samples."""
        surprise = -self.distribution.log_likelihood(self.samples, self.dist_info)
        self._compare("entropy", self.distribution.entropy(self.rows), surprise)

    def check_kl(self) -> None:
        """Compare the KL divergence with the mean over samples, and with 0."""
        kl: Callable[..., Tensor] = self.distribution.kl
        itself = kl(self.rows, self.rows)
        what = f"between equal distributions it is {itself.tolist()}"
        ok = bool((itself.abs() <= ATOL).all())
        self.report.expect(ok, "kl", what, "return 0 for equals.", stop=True)
        likelihood = self.distribution.log_likelihood
        others = self._shifted(self.rows), buffer_func(self.dist_info, lambda x: x.roll(1, 1))
        old, new = (likelihood(self.samples, info) for info in (self.dist_info, others[1]))
        self._compare("kl", kl(self.rows, others[0]), old - new)

    def _shifted(self, rows: Any) -> Any:
        """Return the parameters of the other distributions."""
        return buffer_func(rows, lambda x: x.roll(1, 0))

    def _compare(self, check: str, found: Tensor, terms: Tensor) -> None:
        """Compare results [N] with the mean of terms [n, N]."""
        fix = "return one number for each row, in nats."
        what = f"it has shape {tuple(found.shape)}, expected {(self.N,)}"
        self.report.expect(found.shape == (self.N,), check, what, fix, stop=True)
        mean, error = terms.mean(0), terms.std(0) / self.n**0.5
        ok = bool(((found - mean).abs() <= STD_ERRORS * error + ATOL).all())
        what = f"it is {_listed(found)}, but samples give {_listed(mean)}"
        fix = "derive it from the likelihood, or correct sample."
        self.report.expect(ok, check, what, fix)


def _listed(x: Tensor) -> list[float]:
    return [round(v, 4) for v in x.tolist()]
