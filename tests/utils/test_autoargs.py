import argparse

import pytest

from rlpyt.utils.logging import autoargs


def test_decorated_constructors_work_and_command_lines_name_what_makes_them():
    class Algo:
        @autoargs.prefix("algo_")
        @autoargs.arg("discount", type=float, help="of rewards")
        def __init__(self, discount=0.9):
            self.discount = discount

    class Own(Algo):
        @autoargs.inherit(Algo.__init__)
        def __init__(self, **kwargs):
            super().__init__(**kwargs)

    assert Own(discount=0.5).discount == 0.5
    for use in (
        lambda: autoargs.add_args(None)(Algo, argparse.ArgumentParser()),
        lambda: autoargs.new_from_args(None)(Algo, argparse.Namespace()),
        lambda: autoargs.get_all_parameters(Algo, argparse.Namespace()),
    ):
        with pytest.raises(NotImplementedError, match="Call tyro.cli"):
            use()
