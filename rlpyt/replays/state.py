"""What a checkpoint keeps of a replay, and what it must agree in with the one that loads it."""

from typing import Any


def state_of(replay: Any) -> dict[str, Any]:
    """Everything, as a tree of plain arrays; those of the rows are views."""
    rows = min(replay.ring.written, replay.T)
    void = {"void": replay.ring.void[:rows]} if replay.ring.has_void else {}
    return {
        **void,
        "made": made(replay),
        "written": replay.ring.written,
        "oldest": replay.ring.oldest,
        "storage": replay.storage.state(rows),
        "rnn_states": replay.rnn_states.state(rows),
        "selection": replay.selection.state(),
        "rng": replay.rng.bit_generator.state,
    }


def load_state(replay: Any, state: dict[str, Any]) -> None:
    """Let the replay go on as the one that gave ``state``.

    Raises:
        ValueError: that one was made otherwise; the message says in what.
    """
    own = made(replay)
    if state["made"] != own:
        saved = state["made"]
        odd = [name for name in {**saved, **own} if saved.get(name) != own.get(name)]
        theirs, ours = ({name: made.get(name) for name in odd} for made in (saved, own))
        raise ValueError(f"the saved replay was made with {theirs}, this one with {ours}.")
    replay.ring.load_void(state.get("void"))
    replay.storage.load(state["storage"])
    replay.rnn_states.load(state["rnn_states"])
    replay.selection.load(state["selection"])
    replay.rng.bit_generator.state = state["rng"]
    replay.ring.load(state["written"], state["oldest"])


def made(replay: Any) -> dict[str, Any]:
    """The settings that what is stored depends on."""
    settings = {
        "parts": [part.__name__ for part in (replay.Storage, replay.Selection, replay.Window)],
        "rows": f"{replay.T} rows of {replay.B}",
        "n_step_return": replay.n_step_return,
        "discount": replay.discount,
        "rnn_state_interval": replay.rnn_state_interval,
        "batch_T": replay.batch_T,
    }
    if replay.priorities is not None:  # leaves of the tree are priorities to the alpha
        settings["alpha"] = replay.priorities.alpha
        settings["input_priorities"] = replay.priorities.input_priorities
    return settings
