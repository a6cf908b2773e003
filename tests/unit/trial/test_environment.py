"""A cure adds to what the user has set, and replaces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof.trial.cures import CURES
from pinprof.trial.environment import Setting, added

HUGE = Setting("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", ":")
TORCH = Setting("PYTORCH_CUDA_ALLOC_CONF", "pinned_num_register_threads:8", ",", ":", ("PYTORCH_ALLOC_CONF",))
PLAIN = Setting("MALLOC_TOP_PAD_", "1024")


def test_entries_join_a_list_that_is_there() -> None:
    given = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert added(given, [HUGE, TORCH], []) == {
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,pinned_num_register_threads:8",
    }


def test_a_list_under_another_name_takes_the_entry() -> None:
    assert added({"PYTORCH_ALLOC_CONF": "a:1"}, [TORCH], []) == {
        "PYTORCH_ALLOC_CONF": "a:1,pinned_num_register_threads:8"
    }


@pytest.mark.parametrize(
    ("given", "setting", "reason"),
    [
        ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}, HUGE, "GLIBC_TUNABLES has glibc.malloc.hugetlb=2 already."),
        ({"GLIBC_TUNABLES": "x=1:glibc.malloc.hugetlb=1"}, HUGE, "It is set already."),
        ({"MALLOC_TOP_PAD_": "7"}, PLAIN, "MALLOC_TOP_PAD_ is already set to 7."),
        ({"MALLOC_TOP_PAD_": "1024"}, PLAIN, "It is set already."),
    ],
)
def test_what_the_user_has_set_stays(given: dict[str, str], setting: Setting, reason: str) -> None:
    assert added(given, [setting], None) == reason


def test_of_two_settings_the_one_that_is_missing_is_added() -> None:
    changed = added({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, [HUGE, PLAIN], None)
    assert changed == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_TOP_PAD_": "1024"}


def test_two_entries_of_one_list_stand_side_by_side() -> None:
    changed = added({}, CURES["torch-register-pins"].settings, None)
    assert changed == {"PYTORCH_CUDA_ALLOC_CONF": "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"}


def test_the_users_preloaded_libraries_come_first() -> None:
    assert added({"LD_PRELOAD": "/mine.so"}, [], Path("/a.so")) == {"LD_PRELOAD": "/mine.so:/a.so"}


def test_a_path_that_the_loader_would_split_is_refused() -> None:
    assert "space or a colon" in str(added({}, [], Path("/a b/c.so")))


def test_every_cure_can_be_added_to_an_empty_environment() -> None:
    for cure in CURES.values():
        assert isinstance(added({}, cure.settings, None), dict), cure.id
