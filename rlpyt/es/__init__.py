"""Evolution strategies: black-box minimization by ``ask`` and ``tell``, and training with it."""

from rlpyt.es.base import BaseES, ESResult
from rlpyt.es.cem import CEM
from rlpyt.es.cmaes import CMAES
from rlpyt.es.openai_es import OpenAIES

__all__ = ["CEM", "CMAES", "BaseES", "ESResult", "OpenAIES"]
