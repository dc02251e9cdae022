"""Evolution strategies: black-box minimization by ``ask`` and ``tell``, and training with it."""

from rlpyt.es.ars import ARS
from rlpyt.es.base import BaseES, ESResult
from rlpyt.es.cem import CEM
from rlpyt.es.cmaes import CMAES
from rlpyt.es.openai_es import OpenAIES
from rlpyt.es.pepg import PEPG

__all__ = ["ARS", "CEM", "CMAES", "PEPG", "BaseES", "ESResult", "OpenAIES"]
