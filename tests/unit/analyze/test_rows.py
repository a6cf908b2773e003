"""A new cause is one row: a toy of every tier from a stack to its leaf, and the rows that are refused."""

from __future__ import annotations

import re

import pytest

from pinprof.analyze import CATEGORIES, Category
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.attribution.row import fn, k, nv, so, uv
from pinprof.analyze.attribution.tables import TABLES
from tests.support.documented import section
from tests.support.h200 import kernel_functions
from tests.support.stacks import CLOCK, OFF_CPU, Sample, capture
from tests.support.taxonomy import TaxonomyError, examples, tables

SYSCALL = "main@/app entry_SYSCALL_64_after_hwframe do_syscall_64 "
FAULT = "main@/app asm_exc_page_fault exc_page_fault handle_mm_fault "


def toy(tier: str, *frames: object, name: str = "free.toy", **other: object) -> Category:
    return Category(name, tier, "toys", "Play.", tuple(frames), **other)  # type: ignore[arg-type]


TOYS = [
    (toy("G", *k("toy_page"), context="unmap", strength=10), SYSCALL + "unmap_vmas toy_page handle_mm_fault"),
    (toy("G", context="toy shop", takes="unmap", beneath=k("toy_shop")), SYSCALL + "toy_shop unmap_vmas"),
    (toy("D", *nv("nv_toy"), strength=145), SYSCALL + "nvidia_mmap[nvidia] nv_toy[nvidia]"),
    (toy("U", *fn("toy_.*")), "main@/app toy_f@/usr/lib/libc.so.6"),
    (toy("U", *fn("toy_.*", inside="user.libc")), "main@/app toy_f@/usr/lib/libc.so.6"),
    (toy("W", *k("toy_wait"), strength=105), SYSCALL + "do_wait toy_wait futex_wait schedule"),
    (toy("W", *uv("uvm_toy"), strength=155), SYSCALL + "uvm_ioctl[nvidia_uvm] uvm_toy[nvidia_uvm] schedule"),
]


DOCUMENTED = [
    ("S", SYSCALL + "pin_user_pages toy_map schedule"),
    ("O", SYSCALL + "uvm_ioctl[nvidia_uvm] uvm_toy[nvidia_uvm] handle_mm_fault"),
    ("G", FAULT + "do_anonymous_page toy_page clear_page_erms"),
    ("G", FAULT + "toy_shop handle_mm_fault"),
    ("D", SYSCALL + "toy_call pipe_read schedule"),
    ("W", SYSCALL + "do_wait toy_call futex_wait schedule"),
    ("U", "main@/app f@/usr/lib/libtoy.so.1"),
]


def test_every_row_of_the_taxonomy_works() -> None:
    assert tables(CATEGORIES).rows == TABLES.rows


def leads_to(row: Category, stack: str) -> bool:
    """Whether a stack has this row's leaf as soon as there is the row."""
    grown = tables((*CATEGORIES, row))
    data = capture([Sample(stack.split())], events=(OFF_CPU if row.tier == "W" else CLOCK,))
    assert TABLES.rows[attribute(data).leaf[0]].name != row.name
    return grown.rows[attribute(data, grown).leaf[0]].name == row.name


def documented() -> list[Category]:
    """The examples in docs/extending.md's table of tiers; one may be of two tiers."""
    rows = re.findall(r"^\| (`\w`.*?) \| .* \| `(.*)` \|$", section("A cause"), re.MULTILINE)
    names = {"Category": Category, "fn": fn, "k": k, "nv": nv, "so": so, "uv": uv}
    return [
        eval(f'Category("free.toy", {tier!r}, "toys", "Play.", {example})', names)
        for tiers, example in rows
        for tier in re.findall(r"`(\w)`", tiers)
    ]


@pytest.mark.slow
def test_the_documented_row_of_every_tier_is_a_cause() -> None:
    rows = documented()
    assert [row.tier for row in rows] == [tier for tier, _ in DOCUMENTED]
    for row, (_, stack) in zip(rows, DOCUMENTED, strict=True):
        assert leads_to(row, stack), (row, stack)


@pytest.mark.parametrize(("row", "stack"), TOYS, ids=[f"{number}-{row.tier}" for number, (row, _) in enumerate(TOYS)])
def test_a_cause_beyond_the_documented_ones_is_one_row(row: Category, stack: str) -> None:
    assert leads_to(row, stack)


def test_a_new_context_ends_at_the_next_one_and_knows_only_its_own_kinds() -> None:
    shop = toy("G", context="toy shop", opens=k("toy_shop"))
    bear = toy("G", *k("toy_bear"), name="free.bear", context="toy shop", strength=10)
    grown = tables((*CATEGORIES, shop, bear))
    for stack, leaf in (
        ("toy_shop do_swap_page", "free.toy"),
        ("toy_shop toy_bear do_swap_page", "free.bear"),
        ("toy_shop toy_bear unmap_vmas", "free.unmap"),
        ("toy_bear toy_shop", "free.toy"),
    ):
        data = capture([Sample(stack.split())])
        assert grown.rows[attribute(data, grown).leaf[0]].name == leaf


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (toy("S"), "Nothing leads to free.toy (tier S): it has neither frames nor a role"),
        (toy("W"), "Nothing leads to free.toy"),
        (toy("U"), "Nothing leads to free.toy"),
        (toy("O", *k("toy")), "has no frames in scope k"),
        (toy("U", *k("toy")), "has no frames in scope k"),
        (toy("U", *fn("toy", inside="user.nothing")), "there is no row user.nothing"),
        (toy("D", *k("toy")), "without a strength"),
        (toy("W", *k("toy")), "without a strength"),
        (toy("G", *k("toy"), context="no such", strength=10), "no row opens context no such"),
        (toy("G", context="exception"), "Nothing leads to free.toy"),
        (toy("G", *k("toy"), context="exception"), "Nothing leads to free.toy"),
        (toy("G", context="gup", opens=k("toy")), "Two rows open context 'gup'"),
        (toy("S", *k("toy"), name="unpin"), "Two rows are named 'unpin'"),
        (toy("D", role="kernel"), "Role 'kernel' needs exactly one row, it has other.kernel, free.toy"),
        (toy("D", *k("toy"), strength=50), "free.toy and mm.vma have the same strength"),
        (toy("S", *k("unpin_user_pages")), "both claim 'unpin_user_pages'"),
        (toy("S", *k(r"\w*unpin_user_\w+")), "free.toy"),
        (toy("O", *uv("uvm_api_free")), "uvm.free"),
        (toy("G", *k("do_wp_page"), context="exception", strength=5), "free.toy and fault.cow both claim 'do_wp_page'"),
        (toy("G", *k("do_wp_page"), context="exception", strength=60), "fault.cow and free.toy"),
        (toy("G", context="toy shop", opens=k("unmap_vmas")), "free.unmap"),
        (toy("D", *k("pipe_read"), strength=5), "free.toy and sys.io.pipe"),
        (toy("D", *k("toy"), strength=5, takes_from="fault.cow"), "only a row of tier G"),
        (
            toy("G", *k("toy"), context="exception", strength=5, takes_from="fault.toy", shown_by=k("t")),
            "no row fault.toy",
        ),
        (toy("D", *nv("nv_toy"), strength=105), "free.toy (tier D) is weaker than rm.other"),
        (toy("W", *k("do_wait"), strength=42), "wait.child and free.toy"),
        (toy("U", *so("libjemalloc")), "user.malloc"),
        (toy("U", *fn("memcpy")), "copy.user"),
    ],
)
def test_a_row_that_cannot_work_is_refused_by_name(row: Category, reason: str) -> None:
    with pytest.raises(TaxonomyError) as refused:
        tables((*CATEGORIES, row))
    assert reason in str(refused.value)


def test_patterns_are_expanded_into_the_names_that_they_list() -> None:
    assert sorted(examples(r"(__)?do_(a|b\w+)|ld\.so|x\d{4,6}|mlock2?")) == sorted(
        ["do_a", "do_bx", "__do_a", "__do_bx", "ld.so", "x0000", "mlock", "mlock2"]
    )


@pytest.mark.slow
def test_no_function_of_the_captured_kernel_has_two_equal_claims() -> None:
    for (contest, scope), claims in TABLES.claims.items():
        equals = [claim for claim in claims if claim.strength is None]
        for name in kernel_functions().get(scope, ()) if equals else ():
            by = {claim.row.name for claim in equals if claim.matches(name)}
            assert len(by) < 2, (contest, name, by)
