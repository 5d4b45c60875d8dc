"""Operations that wait for the disk, several at a time: the sync of many files, and durable writes of one folder.

The waits overlap, so a hundred files need little more time than the slowest few. For the host only: a sandboxed process
has one thread.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from remit.core.faultpoints import reach
from remit.fs.atomic_write import disk_failure, new_file, start_writing, temporary_name, write_all

T = TypeVar("T")

_MOST: Final = 4
"""How many operations wait at a time. With more, the disk is hardly faster."""


def overlap(operation: Callable[[T], object], items: Sequence[T]) -> None:
    """Call the operation on each item, several at a time. Returns when every call has ended.

    Raises the first error. Then other items may have got no call.
    """
    left = iter(items)  # its `next` is atomic: no two threads get the same item
    errors: list[Exception] = []

    def work() -> None:
        try:
            for item in left:
                operation(item)
        except Exception as problem:  # noqa: BLE001 - raised below, in the caller's thread
            errors.append(problem)

    threads = [threading.Thread(target=work, name="remit-disk") for _ in range(min(_MOST, len(items)) - 1)]
    try:
        for thread in threads:
            thread.start()
        work()
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if errors:
        raise errors[0]


def sync_all(descriptors: Sequence[int]) -> None:
    """Make each of these files durable. Raises OSError.

    All writes are started first, so that one commit of the disk's journal may serve many files.
    """
    for descriptor in descriptors:
        start_writing(descriptor)
    overlap(os.fsync, descriptors)


def write_together(
    folder: int, files: Mapping[str, bytes], *, mode: int = 0o644, more: Sequence[int] = (), folders: Sequence[int] = ()
) -> None:
    """Write several files in the open folder, each atomically. After the return, all of them are durable.

    If it raises or the machine dies inside it, some files may be new and others old, but each is complete. The open
    files `more` are durable before the first of the new files has its name. The open `folders` are durable with the
    folder.
    """
    temporaries = {name: temporary_name(name) for name in files}
    current = ""
    try:
        with contextlib.ExitStack() as opened:
            descriptors = [*more]
            for current, data in files.items():
                descriptor = new_file(temporaries[current], mode, folder)
                opened.callback(os.close, descriptor)
                descriptors.append(descriptor)
                write_all(descriptor, data)
                reach("durable.written")
            sync_all(descriptors)
            reach("durable.synced")
        for current, temporary in temporaries.items():
            os.rename(temporary, current, src_dir_fd=folder, dst_dir_fd=folder)
            reach("durable.renamed")
        overlap(os.fsync, [folder, *folders])
        reach("durable.directory_synced")
    except OSError as problem:
        for temporary in temporaries.values():
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
        raise disk_failure(problem, current, "Check that the folder still exists and is writable.") from problem
