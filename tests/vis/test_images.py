"""Grids of pictures, captions, the viewer."""

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from rlpyt.vis.images import (
    CAPTION_HEIGHT,
    GridImage,
    ImageViewer,
    as_bytes,
    captioned,
    picture_of,
    shrunk,
    tile,
)

PIL = pytest.importorskip("PIL.Image")


def test_a_grid_by_hand():
    a, b, c = (np.full((1, 2, 1), value, np.uint8) for value in (1, 2, 3))
    grid = tile([a, b, c], ncol=2, padding=1, pad_value=9)
    expected = [
        [9, 9, 9, 9, 9, 9, 9],
        [9, 1, 1, 9, 2, 2, 9],
        [9, 9, 9, 9, 9, 9, 9],
        [9, 3, 3, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9],
    ]
    assert grid[:, :, 0].tolist() == expected


def test_images_of_any_shape_keep_their_order():
    grid = GridImage(ncol=8, padding=5)
    pictures = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 6))
    grid.add(pictures[:7])
    grid.add(pictures[7])
    grid.add(pictures[8:].tolist())
    image = grid()
    assert image.shape == (2 * (4 + 5) + 5, 8 * (6 + 5) + 5, 3) and image.dtype == np.uint8
    for i in range(10):
        top, left = 5 + i // 8 * 9, 5 + i % 8 * 11
        cut = image[top : top + 4, left : left + 6]
        np.testing.assert_array_equal(cut, pictures[i].transpose(1, 2, 0))
    assert grid(ncol=10, padding=0).shape == (4, 60, 3)  # this time
    assert grid().shape == image.shape


def test_gray_images_become_rgb():
    grid = GridImage(padding=0)
    grid.add([[0, 100], [200, 255]])
    grid.add(np.full((1, 2, 2), 7))
    image = grid()
    assert image.shape == (2, 4, 3)
    assert (image == image[:, :, :1]).all() and image[1, :, 0].tolist() == [200, 255, 7, 7]


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros(3), r"\[3\]"),
        (np.zeros((64, 64, 3)), r"\[64, 64, 3\]"),
        (np.zeros((1, 2, 3, 4, 5)), "images must have shape"),
        (np.full((2, 2), 256), "256"),
        (np.full((2, 2), np.nan), "nan"),
    ],
)
def test_arrays_that_are_not_images_are_refused(x, said):
    with pytest.raises(ValueError, match=said):
        GridImage().add(x)


def test_a_grid_of_nothing_or_of_several_sizes_is_refused():
    grid = GridImage()
    with pytest.raises(ValueError, match="no image"):
        grid()
    grid.add(np.zeros((2, 2)))
    grid.add(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"\(2, 2, 3\), \(2, 3, 3\)"):
        grid()
    with pytest.raises(ValueError, match="ncol=0"):
        GridImage(ncol=0)
    with pytest.raises(ValueError, match="pad_value=256"):
        GridImage(pad_value=256)


def test_captions_are_above_the_image():
    picture = np.full((20, 100, 3), 50, np.uint8)
    image = captioned(picture, "#1")
    assert image.shape == (20 + CAPTION_HEIGHT, 100, 3)
    np.testing.assert_array_equal(image[CAPTION_HEIGHT:], picture)
    line = image[:CAPTION_HEIGHT]
    assert line[:, :30].max() > 200 and line[:, 40:].max() == line[0, 0].max()  # at the left
    assert captioned(picture, "x" * 500).shape == image.shape


def test_wide_images_are_scaled_in_proportion():
    picture = np.zeros((40, 100, 3), np.uint8)
    picture[:, 50:] = 200
    small = shrunk(picture, 50)
    assert small.shape == (20, 50, 3) and small[0, 24, 0] == 0 and small[0, 25, 0] == 200
    assert shrunk(picture, 100) is picture


def test_without_a_display_the_newest_image_is_in_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    viewer = ImageViewer(max_width=8, path=tmp_path / "new" / "picture.png")
    for value in (10, 20):
        viewer(np.full((4, 16, 3), value, np.uint8))
    viewer(np.full((4, 8), 30))
    assert viewer.window is False
    seen = np.asarray(PIL.open(viewer.path))
    assert seen.shape == (4, 8, 3) and (seen == 30).all()
    assert [path.name for path in viewer.path.parent.iterdir()] == ["picture.png"]
    assert capsys.readouterr().out.count("picture.png") == 1  # said once
    viewer.close()
    viewer.close()


def test_with_a_display_it_is_in_a_window(tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr("rlpyt.vis.images._open_windows", lambda: True)
    monkeypatch.setattr(plt, "show", lambda block: None)  # no screen here; the figure is real
    viewer = ImageViewer(path=tmp_path / "picture.png")
    picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    viewer(np.zeros_like(picture))
    viewer(picture)
    (number,) = plt.get_fignums()
    drawn = np.asarray(plt.figure(number).canvas.buffer_rgba())
    np.testing.assert_array_equal(drawn[:, :, :3], picture)  # pixel by pixel
    viewer.close()
    assert not plt.get_fignums() and not list(tmp_path.iterdir())


def test_a_display_that_cannot_be_reached_is_none(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("DISPLAY", ":987")
    viewer = ImageViewer(path=tmp_path / "picture.png")
    viewer(np.zeros((2, 2, 3)))
    assert viewer.window is False and viewer.path.exists()


def test_the_viewer_refuses_arrays_that_are_not_images(tmp_path):
    viewer = ImageViewer(path=tmp_path / "picture.png")
    with pytest.raises(ValueError, match=r"\[3, 64, 64\]"):
        viewer(np.zeros((3, 64, 64)))
    with pytest.raises(ValueError, match="max_width=0"):
        ImageViewer(max_width=0)


class Draws:
    def __init__(self, picture):
        self.picture = picture

    def render(self, mode="human"):
        return self.picture if mode == "rgb_array" else None


def test_images_of_environments():
    for values, message in (
        (np.full((2, 2, 3), 70.0), r"floats in \[0, 1\], got 70"),
        (np.zeros((2, 2, 1), np.uint8), r"an array of shape \(2, 2, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            picture_of(Draws(values))
    assert picture_of(Draws(np.zeros((2, 2, 4), np.uint8))).shape == (2, 2, 3)
    floats = picture_of(Draws(np.full((2, 2, 3), 0.2)))
    assert floats.dtype == np.uint8 and (floats == 51).all()
    with pytest.raises(ValueError, match="no method render"):
        picture_of(object())
    with pytest.raises(ValueError, match="rgb_array"):
        picture_of(Draws(None))


@pytest.mark.parametrize(("package", "remedy"), [("pygame", r"\[plot\]"), ("glfw", "by hand")])
def test_a_package_that_rendering_needs_is_named(package, remedy):
    class NeedsPackage:
        def render(self):
            missing = ImportError(name=package)
            raise DependencyNotInstalled(f"install {package} by hand") from missing

    with pytest.raises(ImportError, match=rf"NeedsPackage.*{package}.*{remedy}"):
        picture_of(NeedsPackage())


def test_without_opengl_the_error_says_what_mujoco_needs(monkeypatch):
    class NoDisplay:
        mujoco_renderer = None

        def render(self):
            raise RuntimeError("no display.")

    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(ValueError, match=r"MUJOCO_GL=egl: no display\. .*apt install libegl1"):
        picture_of(NoDisplay())


@pytest.mark.parametrize("show", [lambda x: tile([x]), lambda x: GridImage().add(x[..., 0])])
def test_values_between_0_and_1_are_refused(show):
    with pytest.raises(ValueError, match="Multiply by 255"):
        show(np.full((4, 4, 3), 0.5))
    with pytest.raises(ValueError, match=r"values .*\[0, 255\]"):
        show(np.full((4, 4, 3), 300.0))


def test_values_become_bytes():
    assert as_bytes([[0.0, 127.6], [1.5, 255.0]]).tolist() == [[0, 128], [2, 255]]
    assert as_bytes(np.ones((2, 2), bool)).tolist() == [[1, 1], [1, 1]]
