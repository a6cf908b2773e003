"""The kernels, as PTX that the driver compiles for whatever GPU is there.

    add_two          x[i] += 2, one thread for each element
    add_two_by_warp  the same with one warp for each 64 KiB page, so that a warp faults on one page at a time
    add_two_into     y[i] = x[i] + 2, which leaves x as it is
    add_two_strided  x[i] += 2 in another order: thread `row` of grid row `column` takes row · stride + column + offset,
                     modulo rows · stride, which visits every element once

Indices have 64 bits. PTX ISA 6.0, sm_50 and later.
"""

from __future__ import annotations

KERNELS = ("add_two", "add_two_by_warp", "add_two_into", "add_two_strided")
PAGE_ELEMENTS = 16384
"""Elements of a 64 KiB page, the unit in which the GPU faults."""

PTX = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry add_two(.param .u64 x, .param .u64 count)
{
    .reg .pred %outside;
    .reg .b32  %block, %width, %thread;
    .reg .f32  %value;
    .reg .b64  %index, %offset, %address, %count;

    mov.u32         %block, %ctaid.x;
    mov.u32         %width, %ntid.x;
    mov.u32         %thread, %tid.x;
    cvt.u64.u32     %index, %thread;
    mad.wide.u32    %index, %block, %width, %index;
    ld.param.u64    %count, [count];
    setp.ge.u64     %outside, %index, %count;
    @%outside bra   done;
    ld.param.u64    %address, [x];
    cvta.to.global.u64 %address, %address;
    shl.b64         %offset, %index, 2;
    add.s64         %address, %address, %offset;
    ld.global.f32   %value, [%address];
    add.f32         %value, %value, 0f40000000;
    st.global.f32   [%address], %value;
done:
    ret;
}

.visible .entry add_two_by_warp(.param .u64 x, .param .u64 count)
{
    .reg .pred %outside;
    .reg .b32  %block, %width, %thread, %lane;
    .reg .f32  %value;
    .reg .b64  %index, %end, %offset, %base, %address, %count;

    mov.u32         %block, %ctaid.x;
    mov.u32         %width, %ntid.x;
    mov.u32         %thread, %tid.x;
    cvt.u64.u32     %index, %thread;
    mad.wide.u32    %index, %block, %width, %index;
    shr.u64         %index, %index, 5;
    shl.b64         %index, %index, 14;
    add.s64         %end, %index, 16384;
    and.b32         %lane, %thread, 31;
    cvt.u64.u32     %offset, %lane;
    add.s64         %index, %index, %offset;
    ld.param.u64    %count, [count];
    min.u64         %end, %end, %count;
    ld.param.u64    %base, [x];
    cvta.to.global.u64 %base, %base;
next:
    setp.ge.u64     %outside, %index, %end;
    @%outside bra   done;
    shl.b64         %offset, %index, 2;
    add.s64         %address, %base, %offset;
    ld.global.f32   %value, [%address];
    add.f32         %value, %value, 0f40000000;
    st.global.f32   [%address], %value;
    add.s64         %index, %index, 32;
    bra             next;
done:
    ret;
}

.visible .entry add_two_into(.param .u64 y, .param .u64 x, .param .u64 count)
{
    .reg .pred %outside;
    .reg .b32  %block, %width, %thread;
    .reg .f32  %value;
    .reg .b64  %index, %offset, %address, %count;

    mov.u32         %block, %ctaid.x;
    mov.u32         %width, %ntid.x;
    mov.u32         %thread, %tid.x;
    cvt.u64.u32     %index, %thread;
    mad.wide.u32    %index, %block, %width, %index;
    ld.param.u64    %count, [count];
    setp.ge.u64     %outside, %index, %count;
    @%outside bra   done;
    shl.b64         %offset, %index, 2;
    ld.param.u64    %address, [x];
    cvta.to.global.u64 %address, %address;
    add.s64         %address, %address, %offset;
    ld.global.f32   %value, [%address];
    add.f32         %value, %value, 0f40000000;
    ld.param.u64    %address, [y];
    cvta.to.global.u64 %address, %address;
    add.s64         %address, %address, %offset;
    st.global.f32   [%address], %value;
done:
    ret;
}

.visible .entry add_two_strided(
    .param .u64 x, .param .u64 count, .param .u64 rows, .param .u64 stride, .param .u64 offset)
{
    .reg .pred %outside, %around;
    .reg .b32  %block, %width, %thread, %column;
    .reg .f32  %value;
    .reg .b64  %index, %limit, %stride, %offset, %address, %total;

    mov.u32         %block, %ctaid.x;
    mov.u32         %width, %ntid.x;
    mov.u32         %thread, %tid.x;
    cvt.u64.u32     %index, %thread;
    mad.wide.u32    %index, %block, %width, %index;
    ld.param.u64    %limit, [rows];
    setp.ge.u64     %outside, %index, %limit;
    @%outside bra   done;
    ld.param.u64    %stride, [stride];
    mul.lo.u64      %total, %limit, %stride;
    mov.u32         %column, %ctaid.y;
    cvt.u64.u32     %offset, %column;
    mad.lo.u64      %index, %index, %stride, %offset;
    ld.param.u64    %offset, [offset];
    add.s64         %index, %index, %offset;
    setp.ge.u64     %around, %index, %total;
    @%around sub.s64 %index, %index, %total;
    ld.param.u64    %limit, [count];
    setp.ge.u64     %outside, %index, %limit;
    @%outside bra   done;
    ld.param.u64    %address, [x];
    cvta.to.global.u64 %address, %address;
    shl.b64         %offset, %index, 2;
    add.s64         %address, %address, %offset;
    ld.global.f32   %value, [%address];
    add.f32         %value, %value, 0f40000000;
    st.global.f32   [%address], %value;
done:
    ret;
}
\0"""
