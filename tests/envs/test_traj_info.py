"""Entries that a TrajInfo keeps between steps survive a checkpoint."""

from collections import Counter, defaultdict, deque, namedtuple

import numpy as np

from rlpyt.envs.gym import make
from rlpyt.envs.traj_info import TrajInfo, load_entries, saved_entries
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple, namedtuple_class
from rlpyt.utils.state_codec import decode_state, encode_state
from tests.runners.test_minibatch_rl import CategoricalPgAgent, SmallMlp

Pair = namedtuple("Pair", ["a", "b"])
Info = namedtuple_class("info", ["timeout", "inner"])
Points = namedarraytuple("Points", ["x", "y"])


def through_a_checkpoint(info, fresh):
    load_entries(fresh, decode_state(encode_state(saved_entries(info))))
    return fresh


def test_every_collection_is_restored_with_its_type():
    given = dict(
        _number=np.float32(2.5),
        _text="a",
        _pair=Pair(1, [Pair(2, None)]),
        _infos=[Info(True, Info(False, 3))],
        _cells={(0.5, 1), (2.0, -1)},
        _frozen=frozenset([1]),
        _last=deque([1, 2, 3], maxlen=3),
        _visits={(0, 1): 2, "kind": 3},
        _bytes=b"x",
    )
    info = through_a_checkpoint(TrajInfo(**given), TrajInfo())
    assert {name: info[name] for name in given} == given
    for name, value in given.items():
        assert type(info[name]) is type(value) or name == "_pair"
    assert info._infos[0].inner.timeout is False and info._pair.b[0].a == 2
    assert info._last.maxlen == 3
    points = through_a_checkpoint(TrajInfo(_p=Points(np.arange(3), np.ones(3))), TrajInfo())._p
    assert type(points) is Points and points[1] == Points(1, 1.0)


def test_dicts_keep_their_class():
    given, fresh = (TrajInfo(_n=defaultdict(int), _c=Counter(x=1), _o=0) for _ in range(2))
    given._n["cell"] += 2
    given._c = Counter("aab")
    info = through_a_checkpoint(given, fresh)
    info._n["other"] += 1
    assert info._n == {"cell": 2, "other": 1} and info._c == Counter("aab")


def test_what_a_checkpoint_cannot_hold_is_left_out():
    loop = []
    loop.append(loop)
    reserved = namedtuple("Reserved", ["get"])(1)
    info = TrajInfo(_a=object(), _b=[object()], _c=loop, _d=reserved, _e=np.array([None]), _f=1)
    assert set(saved_entries(info)) - set(TrajInfo()) == {"_f"}


def test_a_checkpoint_of_an_earlier_release_is_loaded():
    info = TrajInfo()
    load_entries(info, {"Length": 3, "_rewards": [1.0, {"a": 1}]})
    assert info.Length == 3 and info._rewards == [1.0, {"a": 1}]


class Visits(TrajInfo):
    """Keeps the info of every step, and counts the cells that an episode visits."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Visited, self.Seen = 0, 0
        self._cells, self._infos, self._last = set(), [], deque(maxlen=5)

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        self._cells.add(tuple(np.round(observation, 1).tolist()))
        self._infos.append(env_info)
        self._last.append(float(reward))
        self.Visited, self.Seen = len(self._cells), sum(not i.timeout for i in self._infos)


def test_a_resumed_sampler_completes_the_same_trajectories():
    def sampler():
        made = SerialSampler(
            make, dict(id="CartPole-v1"), batch_T=12, batch_B=2, TrajInfoCls=Visits
        )
        made.initialize(CategoricalPgAgent(ModelCls=SmallMlp), seed=9)
        return made

    whole = sampler()
    whole.obtain_samples(0)
    state = decode_state(encode_state(whole.state_dict()))
    agent = whole.agent.state_dict()
    resumed = sampler()
    resumed.agent.load_state_dict(agent)
    assert resumed.load_state_dict(state)
    kept = [made.collector.traj_infos for made in (whole, resumed)]
    assert kept[0] == kept[1] and all(info._cells and info._infos for info in kept[1])
    assert isinstance(kept[1][0]._infos[0].timeout, (bool, np.bool_))
