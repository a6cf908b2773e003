"""The taxonomy: every leaf a sample can land in, as rows that decide by themselves; the machine knows no row by name.

A row says its tier, meaning and remedy, which frames lead to it, and what it does to other claims. Tiers are tried in
the order S (specific) → O (UVM owner) → G (generic memory management) → D (remainders) → U (no kernel frame);
`attribute.walk` is the machine that applies them, `tables` derives what it needs and refuses rows that cannot work.
Frame names are normalised first (`matching.normalise`), then matched whole.

Intervals off the CPU have rows of their own, tier W (wait): the strongest claim on the stack counts.

A pattern under `unseen=` comes from reading sources (Linux 4.18–6.12, arm64, other drivers: open modules 515–595, code
that is inlined or was not run where the captures were made). All others are functions of Linux 6.18 and driver
580.159.04, the kernel and driver of the captures: a test looks each up in that boot's symbol table.
"""

from __future__ import annotations

from pinprof.analyze.attribution.row import Category, fn, k, nv, so, uv
from pinprof.data.gpu_functions import LINKED_RUNTIME, RUNTIME_API

LEVELS: tuple[tuple[str, str], ...] = (
    ("pin", "pinning and unpinning pages"),
    ("fault", "page faults"),
    ("uvm", "unified memory (UVM)"),
    ("dma", "DMA mapping"),
    ("free", "freeing pages"),
    ("copy", "copying"),
    ("sync", "waiting"),
    ("wait", "off the CPU"),
    ("rm", "the NVIDIA driver"),
    ("user", "user code"),
    ("sys", "kernel housekeeping"),
    ("other", "everything else"),
    ("self", "pinprof itself"),
)
"""Rows of the headline bar, in reading order, with what to call them in a sentence."""

ENTRY = k(
    r"entry_SYSCALL_64\w*|do_syscall_64|x64_sys_call|sys_\w+|entry_SYSENTER\w*|do_fast_syscall_32|syscall_\w+"
    r"|exit_to_user_mode_loop|irqentry_\w+|task_work_run|ret_from_fork\w*|kthread"
    r"|asm_\w+|exc_\w+|sysvec_\w+|common_interrupt|common_startup_64",
    r"exit_to_user_mode_prepare|ret_to_user\w*|__fdget\w*|vfs_ioctl|invoke_syscall|el0_svc\w*|el0t_64_sync\w*|el0_sync|do_el0_svc|secondary_startup_64\w*",
)
"""Ways into and out of the kernel; a stack of nothing else is `sys.entry`."""

HELPERS = k(
    r"_raw_(spin|read|write)_\w+|\w*queued_spin_unlock|__raw_callee_save\w*|(__)?rcu_\w+|__x86_\w*thunk\w*"
    r"|srso_\w+|retbleed_\w+|__fentry__|ftrace_\w+|native_write_msr|__local_bh_\w+"
    r"|read_tsc|pvclock_\w+|kvm_clock_\w+|ktime_get\w*|_find_\w+_bit|__bitmap_\w+"
)
"""Frames that say nothing about the work: skipped when the attribute is looked for."""

_PINNER = (
    *k(r"io_pin_pages|io_sqe_buffer_register", r"io_sqe_buffers_register|vfio_pin_\w+|iopt_\w+|ib_umem_get\w*"),
    *nv("os_lock_user_pages", "nv_register_user_pages"),
)

CLEARING = k(
    "clear_page_(erms|rep|orig)|folio_zero_user",
    r"clear_pages?|clear_pages_\w+|clear_subpage|clear_\w*highpage\w*|kernel_init_(free_)?pages"
    r"|clear_huge_page|mte_zero_clear_page_tags",
)
"""Functions that fill pages with zeros."""

_COPYING_PAGE = k(
    r"copy_page(_regs)?|copy_mc_\w+",
    r"copy_page_mc|copy_user_highpage\w*|copy_highpage\w*|copy_subpage|copy_user_(large_folio|huge_page|gigantic_page|page)"
    r"|__cpu_copy_user_page|__wp_page_copy_user",
)
_TO_FILE = k("do_page_mkwrite|fault_dirty_shared_page", r"wp_page_shared|wp_pfn_shared|\w+_page_mkwrite")

CATEGORIES: tuple[Category, ...] = (
    # Page faults: the nearest context outward is an exception; the kind is the most telling frame inside it.
    Category(
        "fault.anon", "G", "first touch of malloc'd memory", "Reuse buffers, use huge pages, populate early.",
        k("do_anonymous_page", r"do_huge_pmd_anonymous_page|vma_alloc_anon_folio_pmd|hugetlb_fault|hugetlb_no_page"),
        context="exception", strength=30,
    ),
    Category(
        "fault.file", "G", "first touch of file or shared memory", "Use MAP_POPULATE, or read() instead of mapping.",
        k(r"do_(read_|shared_)?fault|__do_fault|shmem_fault|filemap_\w+|finish_fault"), context="exception",
        strength=20,
    ),
    Category(
        "fault.shared", "G", "first write to a clean page of a shared file",
        "Write files back less often, or use write().",
        k("do_page_mkwrite", r"wp_page_shared|wp_pfn_shared|\w+_page_mkwrite"), context="exception", strength=45,
        takes_from="fault.cow", shown_by=_TO_FILE,
    ),
    Category(
        "fault.cow", "G", "a page copied at its first write: after a fork, or of a private mapping of a file",
        "Spawn processes instead of forking; read files instead of mapping them to write.",
        k("do_wp_page", r"wp_page_copy|do_cow_fault|hugetlb_wp|hugetlb_cow|do_huge_pmd_wp_page"),
        context="exception", strength=40, takes_from="fault.file", shown_by=_COPYING_PAGE,
    ),
    Category(
        "fault.zero", "G", "first write to memory of zeros that was only read before",
        "Reuse buffers, and clear them.", k("", "do_huge_zero_wp_pmd"), context="exception", strength=42,
        takes_from="fault.cow", shown_by=(*CLEARING, *k("", r"(vma_)?alloc_zeroed_\w+")),
    ),
    Category(
        "fault.swap", "G", "waiting for swap or page migration", "Leave more memory free.",
        k("", r"do_swap_page|\w*migration_entry_wait\w*"), context="exception", strength=50,
    ),
    Category(
        "fault.numa", "G", "a page that NUMA balancing has taken away, to see who uses it or to move it",
        "Bind memory and threads to a node (numactl), or turn off kernel.numa_balancing.",
        k(r"do_huge_pmd_numa_page|migrate_misplaced_\w+|numa_migrate_check", "do_numa_page|numa_migrate_prep"),
        context="exception", strength=55,
    ),
    Category(
        "fault.reclaim", "G", "a fault that first has to free memory: a limit is reached, or no memory is left",
        "Raise the memory limit, or use less memory and page cache.",
        k(
            r"try_to_free_(mem_cgroup_)?pages|do_try_to_free_pages|shrink_(node|lruvec|folio_list|slab)\w*"
            "|__mem_cgroup_handle_over_high|reclaim_high|drain_all_pages|reclaim_throttle",
            "shrink_page_list|shrink_zones?|mem_cgroup_handle_over_high|__alloc_pages_direct_reclaim",
        ), context="exception", strength=62,
    ),
    Category(
        "fault.compact", "G", "a fault that first has to move other pages, to make room for a huge one (compaction)",
        "Set huge-page defragmentation to defer+madvise, or reserve huge pages (hugetlbfs).",
        k(r"__alloc_pages_direct_compact|try_to_compact_pages|compact_zone\w*|isolate_(migrate|free)pages\w*|compaction_\w+"),
        context="exception", strength=65,
    ),
    Category(
        "fault.uffd", "G", "fault handed to a userfaultfd handler", "Let the handler resolve larger pieces at a time.",
        context="uffd fault", opens=k("handle_userfault"),
    ),
    Category(
        "uffd.service", "G", "the userfaultfd handler filling pages", "Resolve larger pieces per call.",
        context="uffd service", opens=k(r"userfaultfd_ioctl|mfill_atomic\w*", r"__mcopy_atomic\w*|move_pages\w*"),
        shown_under="fault",
    ),
    Category(
        "fault.core", "G", "fault handling whose kind is not visible", "Use fewer, larger pages.",
        k(r"(__)?handle_mm_fault", "handle_pte_fault"), context="exception", strength=10,
    ),
    Category(
        "fault.entry", "G", "exception entry and VMA lookup of a fault", "Use fewer, larger pages.",
        context="exception", opens=k(
            r"asm_exc_page_fault|exc_page_fault",
            r"do_user_addr_fault|page_fault|async_page_fault|(__)?do_page_fault|el0_da|el1_abort|do_mem_abort|do_translation_fault",
        ),
    ),
    Category(
        "populate", "G", "explicit prefault", "No change needed, but do it in parallel.", context="populate", opens=k(
            r"__mm_populate|populate_vma_page_range|faultin_(vma_)?page_range|do_mlock|mlock_fixup|shmem_fallocate"
        ), takes="gup", shown_under="fault",
    ),
    # Pinning: the nearest context outward is get_user_pages; a fault inside it means that pages are being created.
    Category(
        "pin.faultin", "G", "pages created while being pinned", "Pin memory that is already touched, and pool it.",
        context="gup", strength=10, kinds_of="exception", also_in="gup borrow",
    ),
    Category(
        "pin.walk", "G", "pinning pages that are present", "Register memory once and keep it "
            "registered.", context="gup", opens=k(
            r"(pin|get)_user_pages\w*|__get_user_pages\w*|__gup_longterm_locked|gup_fast\w*|follow_page_\w+|try_grab_\w+",
            r"get_user_pages_longterm|internal_get_user_pages_fast|(__)?gup_p.?d_range|__gup_device_\w+",
        ),
    ),
    Category(
        "pin.migrate", "G", "moving pages out of CMA or movable zones before pinning", "Register memory once "
            "and keep it registered.",
        k("", r"migrate_longterm\w*|check_and_migrate\w*"), context="gup", strength=20, also_in="gup borrow",
    ),
    Category(
        "pin.account", "G", "page arrays and accounting of a pin", "Register memory once and keep it "
            "registered.", context="pinner",
        opens=_PINNER,
    ),
    Category(
        "pin.transient", "G", "pages borrowed for one call (O_DIRECT, ptrace, process_vm)",
        "Use registered buffers for repeated I/O.", context="gup borrow", takes="gup", beneath=k(
            r"process_vm_rw\w*|bio_iov_iter_get_pages",
            r"(__)?access_remote_vm|ptrace_access_vm|iov_iter_(get|extract)_pages\w*|get_futex_key|get_arg_page|get_dump_page",
        ), not_beneath=_PINNER,
    ),
    Category(
        "unpin", "S", "releasing pins", "Keep memory registered.", (
            *k(
                r"unpin_user_\w+|io_release_ubuf|gup_put_folio",
                r"put_user_pages\w*|vfio_unpin_\w+|batch_unpin|io_buffer_unmap",
            ),
            *nv("os_unlock_user_pages", r"nv_unregister_user_pages"),
        ), shown_under="pin",
    ),
    Category(
        "free.shmem", "G", "freeing shared pages, including those of cudaMallocHost", "Pool the buffers.",
        context="shmem free", opens=k(r"shmem_evict_inode|shmem_undo_range", r"truncate_inode_pages\w*"),
    ),
    Category(
        "free.unmap", "G", "unmapping pages, TLB flushes", "Pool the memory, or raise "
            "M_MMAP_THRESHOLD.", context="unmap", opens=k(
            r"unmap_vmas|unmap_page_range|vms_\w+|exit_mmap|tlb_finish_mmu|unmap_region|free_pgtables|zap_page_range\w*"
        ), not_beneath=k(r"unmap_mapping_(range|pages|folio)"),
    ),
    # Bus mapping.
    Category(
        "dma.map", "S", "IOMMU and bus mapping", "Map fewer, larger pieces; use IOMMU passthrough.", (
            *k(
                r"dma_map_\w+|dma_direct_map_\w+",
                r"__dma_map_\w+|iommu_dma_map\w*|\w*_iommu_map\w*|iommu_map\w*|arm_lpae_map\w*",
            ),
            *nv(r"nv_dma_map_\w+|nv_create_dma_map_\w+|memdescMapIommu\w*|osIovaMap\w*|iovaspaceAcquireMapping\w*"),
        ),
    ),
    Category(
        "dma.unmap", "S", "removing IOMMU and bus mappings", "Keep memory registered.", (
            *k(
                r"dma_unmap_\w+|dma_direct_unmap_\w+",
                r"__dma_unmap_\w+|iommu_dma_unmap\w*|\w*_iommu_unmap\w*|iommu_unmap\w*|arm_lpae_unmap\w*",
            ),
            *nv(
                r"nv_dma_unmap_\w+|nv_destroy_dma_map_\w+|memdescUnmapIommu\w*|osIovaUnmap\w*"
                r"|iovaspace(Release|Destroy)Mapping\w*"
            ),
        ),
    ),
    Category(
        "dma.bounce", "S", "copies through the software I/O TLB",
        "Turn the IOMMU on. Under confidential computing, this cost is inherent.", k("", r"swiotlb_\w+"),
    ),
    # Unified memory: the outermost entry point gives the reason.
    Category(
        "uvm.cpu_fault", "O", "the CPU touched managed memory", "Prefetch to the host, or use cudaMemAdvise.",
        uv(r"uvm_vm_fault\w*|uvm_va_space_cpu_fault\w*", r"devmem_fault\w*"),
    ),
    Category(
        "uvm.gpu_fault", "O", "the GPU touched pages that are not resident", "Prefetch to the device.", uv(
            r"\w*replayable_faults_isr_bottom_half\w*|uvm_(parent_)?gpu_service_\w+|service_fault_batch\w*",
            r"uvm_ats_service_\w+|\w*service_access_counters\w*",
        ), role="gpu fault",
    ),
    Category(
        "uvm.migrate", "O", "prefetch and advise calls", "No change needed when it overlaps with work; "
            "otherwise batch the ranges.",
        uv(r"uvm_api_migrate\w*|uvm_migrate\w*", r"uvm_\w*populate_pageable\w*|uvm_api_(un)?set_\w+"),
    ),
    Category(
        "uvm.free", "O", "tearing managed memory or mappings down", "Pool the buffers.",
        uv(r"uvm_vm_close_\w+|uvm_api_free", r"uvm_api_unmap_external\w*|uvm_release\w*|uvm_va_space_destroy"),
    ),
    Category(
        "uvm.map_ext", "O", "GPU page tables of memory allocated elsewhere", "Allocate and register less often.",
        uv(r"uvm_api_map_external_\w+"),
    ),
    Category(
        "uvm.setup", "O", "setting unified memory up", "This happens once per process; keep it out of loops.",
        uv(r"uvm_api_(un)?register_\w+", r"uvm_(api_)?initialize\w*|uvm_api_mm_initialize|uvm_open\w*|uvm_mmap\w*"),
    ),
    Category("uvm.other", "O", "unified memory, reason not visible", "See the call tree.", role="uvm"),
    # The resource manager, NVIDIA's main kernel module.
    Category(
        "rm.gsp_rpc", "S", "the CPU spins for the GPU's firmware (GSP)", "Allocate and initialise less often.",
        nv(r"_issueRpc\w*|_kgspRpc\w*|rpc\w*_GSP|kgspHealthCheck\w*|GspMsgQueue\w*"),
    ),
    Category(
        "rm.sysmem", "S", "the driver's own host pages", "Use fewer, larger allocations, and reuse them.",
        nv(r"nv_alloc_\w*pages|osAllocPages\w*", r"nv_mem_pool_\w+"),
    ),
    Category(
        "rm.isr", "D", "the driver's interrupt handling", "This is the cost of GPU events.", nv(r"\w*_isr\w*"),
        strength=150, role="driver interrupt",
    ),
    Category(
        "rm.mmap", "D", "mapping driver memory", "Allocate less often, and reuse memory.",
        nv(r"nvidia_mmap\w*", "nvidia_fault"), strength=140,
    ),
    Category(
        "rm.free", "D", "freeing driver objects", "Pool the buffers.", nv(r"rmapiFree\w*|nv_free_\w+"), strength=130,
    ),
    Category(
        "rm.opaque", "D", "the proprietary driver, functions without names",
        "Use the open kernel modules to see more.", nv("", r"_nv\d{4,6}rm"), strength=120,
    ),
    Category(
        "rm.other", "D", "the NVIDIA driver, reason not visible", "See the call tree.", strength=110, role="nvidia",
    ),
    # Copies.
    Category(
        "copy.user", "U", "memcpy, memmove, memset", "Copy less; use non-temporal or parallel copies.",
        fn(r"_*(w?mem(p?cpy|move|set)|bcopy|bzero)(@.*|_\w+|)(@plt)?"),
    ),
    Category(
        "copy.staging", "U", "copying from or to pageable memory, through CUDA's bounce buffer",
        "Use pinned memory and asynchronous copies.",
        near_libcuda="copy.user",
    ),
    Category(
        "copy.kernel", "D", "read, write and pipe copies", "Map files, or read straight into the buffer.",
        # A copy that runs outranks the pipe, and even the driver, that it runs for.
        k(
            r"_copy_(to|from)_\w+|rep_movs_alternative|copy_(page|folio)_(to|from)_iter\w*",
            r"copy_user_\w+|raw_copy_\w+|__arch_copy_(to|from)_user|csum_(and|partial)_copy_\w+|copy(in|out)"
            r"|(__)?copy_(to|from)_user\w*|memcpy_(to|from)_(page|folio|iter)\w*|__asm_copy_(to|from)_user",
        ), strength=160,
    ),
    # Waiting.
    Category(
        "sync.poll", "U", "spinning until the GPU is done", "Use blocking synchronisation, and overlap "
            "work.", role="polling",
        near_libcuda="user.clock",
    ),
    Category(
        "sync.block", "D", "sleeping until something happens", "No change needed; overlap work if possible.", k(
            r"sys_(poll|ppoll|select|pselect6|epoll_p?wait2?|nanosleep|clock_nanosleep|sched_yield|pause)"
            r"|do_sys_poll|do_select|do_epoll_wait|hrtimer_nanosleep|do_nanosleep|do_sched_yield"
        ), strength=80,
    ),
    Category(
        "sync.ipc", "D", "futexes and events between threads", "Use blocking synchronisation, and signal less often.",
        k(r"futex_\w+|do_futex|sys_futex\w*|eventfd_\w+"), strength=100,
    ),
    # No kernel frame: whose code.
    Category("user.app", "U", "the program and its libraries", "This is the program's own work.", role="program"),
    Category(
        "user.libcuda", "U", "the CUDA libraries", "Make fewer, larger calls, or use CUDA graphs.",
        (
            *so("libcuda|libcudart|libnvidia|libnvrtc|libcublas|libcudnn|libnccl|libcupti|libnvJitLink|libnvtx"),
            *fn(rf"{LINKED_RUNTIME}|{RUNTIME_API}", inside="user.app"),
        ),
    ),
    Category(
        "user.python", "U", "the Python interpreter", "Vectorise the code, or move the loop out of Python.",
        (*fn(r"py::[\s\S]*"), *so(r"libpython|python\d?(\.\d+)?t?$")), role="python",
    ),
    Category(
        "user.malloc", "U", "the memory allocator", "Allocate less often.",
        (
            *so("libjemalloc|libtcmalloc|libmimalloc|libhoard"),
            *fn(
                r"_*(libc_)?(malloc|free|calloc|realloc|memalign|posix_memalign|aligned_alloc|cfree|int_malloc"
                r"|int_free\w*|int_realloc|malloc_consolidate|sysmalloc|systrim\S*|unlink_chunk\S*|tcache_\w+"
                r"|arena_get\w*)|operator (new|delete).*|mi_\w+|je_\w+|tc_\w+",
                inside="user.libc",
            ),
        ),
    ),
    Category(
        "user.libc", "U", "the C and C++ libraries", "See the call tree.",
        so(r"libc[.-]|libm[.-]|libpthread|librt[.-]|libdl[.-]|libstdc\+\+|libgcc_s|libc\+\+|libmvec|libm$|libc$"),
    ),
    Category("user.loader", "U", "loading libraries", "Once per process.", so(r"ld-linux|ld-musl|ld-\d|ld\.so|ld64")),
    Category(
        "user.clock", "U", "reading clocks", "Read clocks less often.",
        fn(r"(__vdso_|__kernel_|__)?(clock_gettime|gettimeofday|time|clock_getres)(64)?(@.*)?"), role="vdso",
    ),
    Category("user.unknown", "U", "code without a file", "Record with symbols or a perf map.", role="anonymous"),
    # Kernel housekeeping and remainders.
    Category(
        "mm.vma", "D", "changing the address space", "Make fewer mmap, munmap, mprotect and brk calls.", k(
            r"sys_(mmap|mmap_pgoff|munmap|mprotect|brk|mremap|madvise|mlock2?|munlock|mbind|move_pages|ftruncate)"
            r"|ksys_mmap_pgoff|vm_mmap_pgoff|(__)?mmap_region|do_(mmap|munmap|vmi_\w+|brk_flags|madvise|mprotect_pkey)"
            r"|__vm_munmap|unmap_mapping_(range|pages|folio)"
        ), strength=50, role="address space", shown_under="sys",
    ),
    Category("sys.irq", "D", "interrupts and softirqs", "The program does not cause this.", role="interrupt"),
    Category(
        "sys.idle", "D", "idle CPU", "The CPU was idle.", k(
            r"do_idle|cpu_startup_entry|default_idle\w*|cpuidle_\w+|arch_cpu_idle|pv_native_safe_halt|intel_idle\w*",
            r"native_safe_halt|mwait_idle\w*|acpi_idle\w*|cpu_do_idle",
        ), strength=70, role="idle",
    ),
    Category(
        "sys.sched", "D", "scheduling and context switches", "Use fewer threads than cores.", k(
            r"schedule|__schedule|schedule_\w+|preempt_schedule\w*|try_to_wake_up|wake_up_\w+|__wake_up\w*"
            r"|finish_task_switch|schedule_tail|sched_balance_\w+|__cond_resched",
            "load_balance|newidle_balance",
        ), strength=30,
    ),
    Category(
        "sys.entry", "D", "entering and leaving the kernel", "Make fewer system calls.", (*ENTRY, *HELPERS), strength=0,
    ),
    Category(
        "sys.proc", "D", "starting and ending processes", "Start fewer processes.", k(
            r"sys_(clone3?|fork|vfork|execve|execveat|exit|exit_group|wait4|waitid)|kernel_clone|copy_process|do_exit"
            r"|do_group_exit|(begin_new|bprm)_exec\w*|load_elf_binary|copy_page_range|dup_mmap|mmput",
            "exit_mm",
        ), strength=40,
    ),
    Category(
        "sys.reclaim", "D", "reclaiming and compacting memory", "Leave more memory free; set huge-page "
            "defragmentation to defer+madvise.", k(
            r"kswapd|kcompactd|shrink_(?!vma)\w+|(do_)?try_to_free_(mem_cgroup_)?pages|try_to_compact_pages|compact_zone\w*"
            r"|compact_node|balance_pgdat|khugepaged(?!_enter)\w*|migrate_pages\w*"
        ), strength=60,
    ),
    Category(
        "sys.numa", "D", "NUMA balancing looking for pages to move",
        "Bind memory and threads to a node (numactl), or turn off kernel.numa_balancing.",
        k("task_numa_(work|fault|migrate)|change_prot_numa", r"task_numa_placement"), strength=65,
    ),
    Category(
        "sys.signal", "G", "delivering signals", "Handle events without signals: none for each page or item.",
        context="signal", opens=k(
            r"force_sig_\w+|bad_area\w*|x64_setup_rt_frame|sys_rt_sigreturn|restore_sigcontext|signal_setup_done"
            r"|(__)?send_signal_locked|dequeue_signal",
            r"(__)?setup_rt_frame\w*|handle_signal|setup_sigframe|restore_sigframe|ia32_setup_\w*frame|__send_signal"
            r"|send_signal",
        ),
    ),
    # Reading and writing, as far as nothing is copied; weaker than what else uses files: mapping, starting programs.
    Category(
        "sys.io", "D", "read and write calls outside copying", "Make fewer, larger calls.", k(
            r"vfs_(read|write|iter_read|iter_write|iocb_iter_read|iocb_iter_write)v?|ksys_(read|write|pread64|pwrite64)"
            r"|sys_(read|write|pread64|pwrite64|readv|writev|preadv2?|pwritev2?|sendfile64|splice|copy_file_range)"
            r"|sys_(fsync|fdatasync|msync|sync_file_range|syncfs)|do_(readv|writev|preadv|pwritev|sendfile|fsync)"
            r"|vfs_(fsync_range|copy_file_range)",
            "do_iter_readv_writev|new_sync_(read|write)|do_iter_(read|write)|vfs_fsync|ksys_sync|sys_sendfile",
        ), strength=32,
    ),
    Category(
        "sys.io.cache", "D", "files in the page cache: finding, adding and writing back pages",
        "Read and write larger pieces, and sync less often.", k(
            r"filemap_\w+|__filemap_\w+|generic_file_(read|write|direct|buffered|splice)\w*|generic_perform_write"
            r"|\w+_file_(read|write)_iter|\w+_buffered_write\w*|\w+_write_(begin|end)|\w+_writepages|do_writepages|file_write_and_wait_range"
            r"|page_cache_\w+|mapping_(try_invalidate|evict_folio)|generic_fadvise|blkdev_(read|write)_iter|iomap_\w+|block_write_\w+|__block_write_\w+",
            r"generic_file_buffered_read|read_pages",
        ), strength=34,
    ),
    Category(
        "sys.io.proc", "D", "files that the kernel makes up when they are read (/proc, /sys)",
        "Read them less often, and keep them open.", k(
            r"proc_(reg|sys|pid|single|tgid|task)_\w+|seq_(read|printf|put|write|vprintf)\w*|kernfs_(fop|seq)_\w+"
            r"|sysfs_kf_\w+|show_(map|smap|stat)\w*|smaps_\w+|pagemap_\w+|environ_read|meminfo_proc_show|do_task_stat"
            r"|mem_(read|write|rw)",
        ), strength=35,
    ),
    Category(
        "sys.io.random", "D", "making random numbers (/dev/urandom, getrandom)",
        "Seed a generator in the program, and read larger pieces.", k(
            r"get_random_bytes_user|urandom_read\w*|random_read\w*|sys_getrandom|write_pool_user|random_write_iter",
            r"extract_crng\w*|_extract_crng|_?urandom_read_nowarn|extract_entropy_user",
        ), strength=36,
    ),
    Category(
        "sys.io.tty", "D", "terminals", "Write larger pieces, or to a file.", k(
            r"n_tty_\w+|tty_\w+|file_tty_write|redirected_tty_write|pty_\w+|do_output_char|con_\w+|uart_\w+"
            r"|serial8250_\w+",
            r"do_tty_write|process_output\w*|hvc_\w+|do_con_write|echo_char\w*|__process_echoes|ldsem_\w+",
        ), strength=37,
    ),
    Category(
        "sys.io.socket", "D", "sockets", "Use larger messages, fewer round trips, or shared memory.", k(
            r"unix_\w+|sock_(send|recv|read|write)\w*|sys_(sendto|recvfrom|sendmsg|recvmsg|sendmmsg|recvmmsg|connect|accept4?)"
            r"|tcp_(send|recv)msg\w*|udp_(send|recv)msg|inet_(send|recv)msg",
            r"unix_\w+|inet6_(send|recv)msg",
        ), strength=101,
    ),
    Category(
        "sys.io.pipe", "D", "pipes", "Use larger messages, fewer round trips, or shared memory.",
        k(r"pipe_\w+|anon_pipe_\w+|splice_\w+_to_pipe|splice_from_pipe\w*", "fifo_pipe_read"), strength=102,
    ),
    Category(
        "other.kernel", "D", "kernel work without its own category", "See the call tree.", strength=10, role="kernel",
    ),
    Category("other.driver", "D", "other kernel modules", "See the call tree.", strength=20, role="module"),
    Category(
        "lost.nostack", "D", "samples without a callchain", "Record with -g.", role="no stack", shown_under="other",
    ),
    Category(
        "lost.place", "D", "counted between samples: where is not known", "Sample the event itself.", role="no place",
        shown_under="other",
    ),
    # Off the processors: what a thread waited for, by the stack with which it left.
    Category(
        "wait.gpu", "W", "blocked inside the CUDA driver library until the GPU is done",
        "Overlap work with the GPU. This wait costs no CPU time.", role="gpu wait",
    ),
    Category(
        "wait.runnable", "W", "ready to run, while the CPU ran something else",
        "Use fewer threads than cores, and keep other programs off "
            "them.", k("do_sched_yield|sys_sched_yield"), strength=90,
        by_system_call=True, role="runnable",
    ),
    Category(
        "wait.lock", "W", "a lock or a condition of another thread (futex)", "Hold locks for a shorter time, "
            "and share less.",
        k(r"futex_\w+|do_futex|__futex_\w+|sys_futex\w*"), strength=80, by_system_call=True, role="lock",
    ),
    Category(
        "wait.disk", "W", "a disk or a file system", "Read ahead, write behind, or keep files in memory.", k(
            r"io_schedule\w*|bit_wait_io\w*|folio_wait_\w+|__folio_lock\w*|filemap_\w+|__filemap_\w+|file_write_and_wait_range"
            r"|submit_bio_wait|blkdev_\w+|jbd2_\w+|do_fsync|sys_(fsync|fdatasync|syncfs|sync_file_range)"
            r"|ext4_\w+|iomap_\w+|__iomap_dio_rw|balance_dirty_pages\w*|blk_mq_get_tag|rq_qos_wait|__wait_on_buffer"
            r"|sys_io_getevents|io_submit_one|request_wait_answer|read_events",
            r"wait_on_page_\w+|xfs_\w+|xlog_\w+|btrfs_\w+|nfs_\w+|nfs4_\w+|rpc_wait_\w+|p9_client_rpc|dio_\w+|do_blockdev_direct_IO"
            r"|zfs_\w+|zil_\w+|ll_\w+|cl_sync_io_wait|ceph_\w+",
        ), strength=110,
    ),
    Category(
        "wait.sleep", "W", "asleep for a set time", "The program sleeps on purpose.",
        k(r"do_nanosleep|hrtimer_nanosleep|sys_(clock_)?nanosleep|sys_pause|sys_rt_sigsuspend|sys_rt_sigtimedwait"
          r"|do_sigtimedwait|msleep\w*|usleep_range_state|timerfd_\w+"),
        strength=50, by_system_call=True,
    ),
    Category(
        "wait.poll", "W", "poll, epoll, select or io_uring: waiting for one of several events",
        "Check the other end of the files that it watches.",
        k(r"do_sys_poll|do_select|core_sys_select|do_epoll_wait|sys_(poll|ppoll|select|pselect6|epoll_p?wait2?)"
          r"|io_cqring_wait|sys_io_uring_enter", "do_poll|ep_poll"),
        strength=60, by_system_call=True,
    ),
    Category(
        "wait.ipc", "W", "a pipe, a socket or a terminal", "Use larger messages, fewer round trips, or shared memory.",
        k(r"pipe_\w+|anon_pipe_\w+|fifo_open|unix_\w+|sk_wait_data|sk_stream_\w+|__skb_wait_for_more_packets|sock_\w+|inet_\w+"
          r"|tcp_\w+|udp_\w+|netlink_\w+|eventfd_\w+|n_tty_\w+|sys_(recvfrom|recvmsg|sendto|sendmsg|accept4?|connect)"),
        strength=70, by_system_call=True,
    ),
    Category(
        "wait.child", "W", "a child process (wait or vfork)", "Start fewer processes.",
        # A process that was made by vfork(2) or posix_spawn(3) is awaited in kernel_clone itself.
        k(r"do_wait|kernel_wait4|kernel_waitid|sys_wait4|sys_waitid|kernel_clone", "_do_fork"), strength=40,
    ),
    Category(
        "wait.mmap_lock", "W", "the lock of the address space, held by another thread's mmap, munmap or fault",
        "Map and unmap from one thread; touch memory before the threads start.",
        k(r"rwsem_down_(read|write)_slowpath", r"rwsem_down_(read|write)_failed\w*|call_rwsem_down_\w+"), strength=100,
        role="mmap lock",
    ),
    Category(
        "wait.uffd", "W", "a userfaultfd handler that fills the touched page", "Fill larger pieces at a time.",
        k("handle_userfault"), strength=130,
    ),
    Category(
        "wait.kernel", "W", "a lock or a completion inside the kernel", "See the call tree.",
        k(r"wait_for_completion\w*|mutex_lock\w*|__mutex_lock\w*|down\w*|__down\w*|synchronize_\w+|__wait_rcu_gp|__flush_work|stop_one_cpu"
          r"|rt_mutex_\w+|percpu_\w+|__percpu_down_read")
        # What a fork waits for before there is a child.
        + k("copy_process", strength=44),
        strength=10, role="kernel lock",
    ),
    Category(
        "wait.uvm", "W", "inside the unified-memory driver: its locks, its copies", "Prefetch in large pieces.",
        uv(r"\w+"), strength=150,
    ),
    Category(
        "wait.driver", "W", "inside the NVIDIA driver: its locks, its firmware", "Allocate and map less often.",
        nv(r"\w+"), strength=140,
    ),
    Category(
        "wait.cuda_thread", "W", "idle threads of the CUDA driver library", "No change needed: no other thread "
            "waits for these.",
        role="cuda thread",
    ),
    Category(
        "wait.reclaim", "W", "the kernel freeing memory: reclaim, compaction, page migration, memory limits",
        "Leave memory free; raise the memory limit.",
        k(r"reclaim_throttle|throttle_direct_reclaim|shrink_\w+|(do_)?try_to_free_\w+|try_to_compact_pages|compact_zone\w*"
          r"|compact_node|\w*mem_cgroup_handle_over_high|migration_entry_wait\w*",
          "congestion_wait|wait_iff_congested"),
        strength=120,
    ),
    Category(
        "wait.stopped", "W", "stopped by a signal, a debugger or a freezer", "The program does not cause this.",
        k(r"get_signal|do_signal_stop|__refrigerator") + k("ptrace_stop|ptrace_notify", strength=46), strength=20,
    ),
    Category(
        "wait.exit", "W", "while a thread or process ends", "Free memory before exit.", k("do_exit|do_group_exit"),
        strength=30,
    ),
    Category(
        "wait.other", "W", "a wait without its own category", "See the call tree.", strength=0, by_system_call=True,
        role="wait",
    ),
    Category(
        "wait.idle", "W", "idle threads of the program's thread pools", "No change needed: no other thread "
            "waits for these.", role="idle thread",
    ),
    # The recorder: an event of its own (recorder.py).
    Category(
        "self.probe", "S", "the probes that pinprof uses to trace calls",
        "The program does not cause this; --probe-budget limits it.", k(
            r"asm_exc_int3|exc_int3|uprobe_notify_resume|uprobe_dispatcher|uprobe_handle_trampoline|uretprobe_dispatcher"
            r"|uprobe_pre_sstep_notifier|uprobe_post_sstep_notifier|arch_uprobe_\w+|arch_uretprobe_\w+",
            r"handle_swbp|handler_chain|uprobe_breakpoint_handler|uprobe_single_step_handler|sys_uretprobe|sys_uprobe",
        ),
    ),
)  # fmt: skip

LEAF = {category.name: index for index, category in enumerate(CATEGORIES)}
"""Leaf name → index into `CATEGORIES`."""
MEANING = {category.name: category.meaning for category in CATEGORIES}


def in_words(leaf: str) -> str:
    """A cause for a sentence, with its name behind: `first touch of malloc'd memory (fault.anon)`."""
    return f"{MEANING[leaf]} ({leaf})" if leaf in MEANING else leaf


INTERRUPT = k(
    r"asm_sysvec_\w+|sysvec_\w+|asm_common_interrupt|common_interrupt|(__)?irq_exit_rcu|irq_exit|handle_softirqs"
    r"|do_softirq\w*|run_ksoftirqd|hrtimer_interrupt|(__)?handle_irq_event\w*|handle_edge_irq|asm_exc_nmi|exc_nmi",
    r"__do_softirq|do_IRQ|ret_from_intr|smp_apic_timer_interrupt|apic_timer_interrupt|call_softirq|gic_handle_irq"
    r"|el[01]_interrupt|el0t_64_irq\w*|el1h_64_irq\w*|el[01]_irq",
)

RETURN_TO_USER = k(r"exit_to_user_mode_loop|irqentry_exit_to_user_mode", r"exit_to_user_mode_prepare|do_notify_resume")
"""Inside an interrupt: from here on the work is the task's own again (deferred file closes, signals)."""

UVM_THREAD = r"UVM GPU\d+ (BH|KC)"
"""Names of the kernel threads that service GPU faults: bottom halves and kill-channel work."""

NEAR_FRAMES = 6
"""How many frames outward libcuda counts as near (copies and clock reads made for it)."""
