"""Local stand-in for the part of the hub's client that rlpyt calls; it contacts nothing.

Every call is bound to the signature of the real client's method, so calls that the real client
would not accept fail here as well.
"""

import functools
import inspect
import shutil
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import httpx2
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

METHODS = ("create_repo", "repo_info", "upload_folder", "snapshot_download")


def http_error(kind, status, message="refused"):
    """Return an error of the hub's client with the response of a server."""
    request = httpx2.Request("POST", "https://hub.invalid/api")
    return kind(message, response=httpx2.Response(status, request=request))


class StandInHub:
    """Hub in a folder: a folder per commit, and a cache of links as the client has one.

    Attributes:
        commits: repository -> folders of its commits, oldest first.
        private: repository -> True if it is private.
        messages: messages of all commits.
        failure: error that the next call of a method raises, by the method's name.
        calls: names of the called methods.
        local: of each download, True if only the cache was to be used.
    """

    def __init__(self, root):
        self.root = Path(root)
        self.commits, self.private, self.failure = {}, {}, {}
        self.messages, self.calls, self.local = [], [], []

    def __call__(self, **kwargs):
        """Return a client, as the class ``HfApi`` does."""
        inspect.signature(HfApi).bind(**kwargs)
        return SimpleNamespace(**{name: functools.partial(self._call, name) for name in METHODS})

    def _call(self, name, *args, **kwargs):
        signature = inspect.signature(getattr(HfApi, name))
        given = signature.bind(None, *args, **kwargs)
        given.apply_defaults()
        self.calls.append(name)
        if name in self.failure:
            raise self.failure[name]
        return getattr(self, name)(SimpleNamespace(**given.arguments))

    def create_repo(self, given):
        if given.repo_id in self.commits and not given.exist_ok:
            raise http_error(HfHubHTTPError, 409)
        self.commits.setdefault(given.repo_id, [])
        self.private.setdefault(given.repo_id, bool(given.private))
        return f"https://hub.invalid/{given.repo_id}"

    def repo_info(self, given):
        if given.repo_id not in self.commits:
            raise http_error(RepositoryNotFoundError, 401)
        return SimpleNamespace(private=self.private[given.repo_id])

    def upload_folder(self, given):
        commits = self.commits[given.repo_id]
        commit = self.root / "commits" / given.repo_id / str(len(commits))
        if commits:
            shutil.copytree(commits[-1], commit)
            for path in [path for path in commit.rglob("*") if path.is_file()]:
                name = str(path.relative_to(commit))
                if any(fnmatch(name, pattern) for pattern in given.delete_patterns or ()):
                    path.unlink()
        shutil.copytree(given.folder_path, commit, dirs_exist_ok=True)
        commits.append(commit)
        self.messages.append(given.commit_message)

    def snapshot_download(self, given):
        cache = self.root / "cache" / given.repo_id
        self.local.append(given.local_files_only)
        if given.repo_id not in self.commits:
            raise http_error(RepositoryNotFoundError, 401)
        commits = self.commits[given.repo_id]
        if given.local_files_only and not cache.exists():
            raise not_in_cache()
        number = len(commits) - 1 if given.revision in (None, "main") else int(given.revision)
        if number >= len(commits):
            raise http_error(RevisionNotFoundError, 404)
        snapshot = cache / "snapshots" / str(number)
        for path in commits[number].rglob("*"):
            name = str(path.relative_to(commits[number]))
            if path.is_file() and any(fnmatch(name, p) for p in given.allow_patterns or ["*"]):
                blob, link = cache / "blobs" / f"{number}-{name.replace('/', '-')}", snapshot / name
                for folder in (blob.parent, link.parent):
                    folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, blob)
                if not link.is_symlink():
                    link.symlink_to(blob)
        return str(snapshot)

    def latest(self, repo_id):
        """Return the folder of the latest commit."""
        return self.commits[repo_id][-1]


def unreachable():
    """Return the error of a client without network."""
    return httpx2.ConnectError("[Errno 111] Connection refused")


def not_in_cache():
    """Return the error of a download without network, of a model that is not in the cache."""
    error = LocalEntryNotFoundError("cannot find an appropriate cached snapshot folder.")
    error.__cause__ = unreachable()
    return error
