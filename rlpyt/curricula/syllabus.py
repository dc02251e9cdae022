"""Public import path of `rlpyt.compat.syllabus_curriculum`."""

from rlpyt.compat.syllabus_curriculum import SyllabusCurriculum

__all__ = ["SyllabusCurriculum"]
