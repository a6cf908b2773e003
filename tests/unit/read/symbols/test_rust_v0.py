"""Names of Rust's v0 mangling: the examples of RFC 2603, and what rustc-demangle makes of names from real programs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.read.symbols.demangle import MAX_PLAIN, demangle


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        # RFC 2603
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
        ("_RNvNvCs1234_7mycrate4QUUX3FOO", "mycrate::QUUX::FOO"),
        ("_RNvMs_Cs1234_7mycrateNtB4_3Foo3bar", "<mycrate::Foo>::bar"),
        ("_RNvXCs1234_7mycrateNtB2_3FooNtNtC3std5clone5Clone5clone", "<mycrate::Foo as std::clone::Clone>::clone"),
        ("_RNvYNtCs1234_7mycrate3FooNtB4_3Bar3baz", "<mycrate::Foo as mycrate::Bar>::baz"),
        ("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"),
        ("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>"),
        ("_RINvCs7QcsAmKA2xo_7mycrate3fooLpE", "_RINvCs7QcsAmKA2xo_7mycrate3fooLpE"),
        ("_RNCNvCs1234_7mycrate4main0B3_", "mycrate::main::{closure#0}"),
        ("_RNCNCNvC7mycrate4main0s_0", "mycrate::main::{closure#0}::{closure#1}"),
        ("_RNSNvC7mycrate4main6vtable", "mycrate::main::{shim:vtable#0}"),
        ("_RINvC7mycrate3fooTyaEE", "mycrate::foo::<(u64, i8)>"),
        ("_RINvC7mycrate3fooThEE", "mycrate::foo::<(u8,)>"),
        ("_RINvC7mycrate3fooTEE", "mycrate::foo::<()>"),
        ("_RINvC7mycrate3fooReQhPlOmE", "mycrate::foo::<&str, &mut u8, *const i32, *mut u32>"),
        ("_RINvC7mycrate3fooAhj10_ShE", "mycrate::foo::<[u8; 16], [u8]>"),
        ("_RINvC7mycrate3fooFUKCjEuE", 'mycrate::foo::<unsafe extern "C" fn(usize)>'),
        ("_RINvC7mycrate3fooFK8fastcalljEzE", 'mycrate::foo::<extern "fastcall" fn(usize) -> !>'),
        ("_RINvC7mycrate3fooFG_RL0_hEhE", "mycrate::foo::<for<'a> fn(&'a u8) -> u8>"),
        ("_RINvC7mycrate3fooDNtC3std4SendEL_E", "mycrate::foo::<dyn std::Send>"),
        ("_RINvC1a1fDNtB2_1TNtB2_1SEL_E", "a::f::<dyn a::T + a::S>"),
        ("_RNvC6_123foo3bar", "123foo::bar"),
        ("_RNvCs1234_7mycratep3foo", "_RNvCs1234_7mycratep3foo"),
        ("_RNvC7mycrateu8gdel_5qa", "mycrate::gödel"),
        # rustc-demangle
        (
            "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
            "utf8_idents::საჭმელად_გემრიელი_სადილი",
        ),
        ("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"),
        (
            (
                "_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8Iterator9rposition"
                "NCNgNpB9_6memchr7memrchrs_0E0Bb_"
            ),
            (
                "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::<core::slice::memchr::memrchr::"
                "{closure#1}>::{closure#0}"
            ),
        ),
        (
            "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
            "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>",
        ),
        ("_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>"),
        ("_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKsn98_E", "<const_generic::Signed<-152>>"),
        ("_RMCs4fqI2P2rA04_13const_genericINtB0_4BoolKb0_E", "<const_generic::Bool<false>>"),
        ("_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKc76_E", "<const_generic::Char<'v'>>"),
        ("_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKca_E", "<const_generic::Char<'\\n'>>"),
        ("_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKc2202_E", "<const_generic::Char<'∂'>>"),
        ("_RNvNvMCs4fqI2P2rA04_13const_genericINtB4_3FooKpE3foo3FOO", "<const_generic::Foo<_>>::foo::FOO"),
        ("_RIC0Ke616263_E", '::<{*"abc"}>'),
        ("_RIC0KRe616263_E", '::<{"abc"}>'),
        ("_RIC0KRAh1_h2_h3_EE", "::<{&[1, 2, 3]}>"),
        ("_RIC0KRTh1_b1_EE", "::<{&(1, true)}>"),
        ("_RIC0KVNtNtC4core6option6OptionUE", "::<{core::option::Option}>"),
        ("_RIC0KVNtC4core4SomeTj0_EE", "::<{core::Some(0)}>"),
        ("_RIC0KVNtC4core1XS1aj7_EE", "::<{core::X { a: 7 }}>"),
        ("_RIC0Ky123456789abcdef0123_E", "::<0x123456789abcdef0123>"),
        ("_RC3foo.llvm.9D1C9369", "foo"),
        ("_RNvC9backtrace3foo.cold", "backtrace::foo [clone .cold]"),
        ("__RNvC9backtrace3foo", "backtrace::foo"),
        # no name of this mangling
        ("_R", "_R"),
        ("_Rust_thing", "_Rust_thing"),
        ("_RNvC9backtrace", "_RNvC9backtrace"),
        ("_RNvB_3foo", "_RNvB_3foo"),
        ("_R1NvC1a1b", "_R1NvC1a1b"),
        ("_RNvC1a1bGARBAGE", "_RNvC1a1bGARBAGE"),
        ("_RMC0RL_hE", "_RMC0RL_hE"),
        ("_RINvC1a1bRL0_hE", "_RINvC1a1bRL0_hE"),
    ],
)  # fmt: skip
def test_names(mangled: str, plain: str) -> None:
    assert demangle(mangled) == plain


def test_names_that_are_too_deep_or_too_long_stay_as_they_are() -> None:
    assert demangle(deep := "_RIC0" + "R" * 5000 + "hE") == deep
    doubling = "_RINvC1a1b" + "".join(f"TB{place}_B{place}_E" for place in ("7", "7", "7"))
    references = "_RIC0Th" + "".join("TB3_B3_B3_B3_E" for _ in range(2000)) + "EE"
    for name in (doubling, references, "_RMC0" + "FG" + "Z" * 9 + "_Eu"):
        begin = time.process_time()
        assert len(demangle(name)) <= max(MAX_PLAIN, len(name))
        assert time.process_time() - begin < 5


@given(st.text("RNvCIKBEMXYTSFDLGpeubhj0123456789_sn.$a", max_size=60))
def test_no_text_raises(text: str) -> None:
    assert isinstance(demangle(f"_R{text}"), str)


@given(st.binary(max_size=40))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(demangle("_RNvC7mycrateu" + data.decode("utf-8", "replace")), str)
