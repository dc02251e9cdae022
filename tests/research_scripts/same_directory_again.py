"""The same run_ID twice: the first results are kept aside."""

import os

from model_and_agent import build_and_train

if __name__ == "__main__":
    build_and_train(run_ID=7)
    build_and_train(run_ID=7)
    assert sorted(os.listdir("runs")) == ["run_7", "run_7.1"], os.listdir("runs")
