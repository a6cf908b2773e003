"""One example stack per leaf: what the taxonomy says about it, leaf and work attribute."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze import CATEGORIES, LEVELS, WORK_ATTRIBUTES, analyze, headline
from pinprof.analyze.attribution.categories import HELPERS, INTERRUPT
from pinprof.analyze.attribution.work import WORK
from pinprof.analyze.opportunities import search
from pinprof.data.model import READY
from tests.support.h200 import kernel_functions
from tests.support.stacks import CLOCK, OFF_CPU, Sample, capture
from tools.cause_list import page

MAIN = "_start@/app main@/app "
SYSCALL = MAIN + "entry_SYSCALL_64_after_hwframe do_syscall_64 x64_sys_call "
IOCTL = SYSCALL + "__x64_sys_ioctl "
FAULT = MAIN + "asm_exc_page_fault exc_page_fault "
CORE = FAULT + "handle_mm_fault __handle_mm_fault "
RM = IOCTL + "nvidia_unlocked_ioctl[nvidia] rm_ioctl[nvidia] RmIoctl[nvidia] "
LOCK = RM + "RmCreateOsDescriptor[nvidia] os_lock_user_pages[nvidia] "
PIN = LOCK + "pin_user_pages __gup_longterm_locked __get_user_pages "
UVM = IOCTL + "uvm_unlocked_ioctl_entry[nvidia_uvm] uvm_ioctl[nvidia_uvm] "
URING = SYSCALL + "__x64_sys_io_uring_register __io_uring_register io_sqe_buffers_register io_sqe_buffer_register "
KTHREAD = "ret_from_fork_asm ret_from_fork kthread "
IDLE = "common_startup_64 cpu_startup_entry do_idle "
CUDA = MAIN + "cuMemcpyHtoD_v2@/usr/lib/libcuda.so.580.159.04 "

ROWS = [
    ("fault.anon", "zero", CORE + "do_anonymous_page vma_alloc_folio_noprof alloc_pages_mpol "
     "__alloc_frozen_pages_noprof clear_page_erms"),
    ("fault.anon", "core", CORE + "do_anonymous_page _raw_spin_lock"),
    ("fault.anon", "memcg", CORE + "do_anonymous_page __mem_cgroup_charge __rcu_read_unlock"),
    ("fault.anon", "zero", FAULT + "handle_mm_fault hugetlb_fault hugetlb_no_page folio_zero_user clear_subpage"),
    ("fault.anon", "zero", MAIN + "page_fault do_page_fault __do_page_fault handle_mm_fault __handle_mm_fault "
     "do_huge_pmd_anonymous_page clear_huge_page clear_page_erms"),
    ("fault.anon", "zero", MAIN + "el0t_64_sync el0t_64_sync_handler el0_da do_mem_abort do_translation_fault "
     "do_page_fault handle_mm_fault __handle_mm_fault do_anonymous_page __pi_clear_page"),
    ("fault.file", "core", CORE + "do_fault __do_fault filemap_fault"),
    ("fault.file", "zero", CORE + "do_fault __do_fault shmem_fault clear_page_erms"),
    ("fault.cow", "copy", CORE + "do_wp_page wp_page_copy copy_mc_user_highpage copy_mc_fragile"),
    ("fault.cow", "core", CORE + "do_fault do_cow_fault __do_fault filemap_fault"),
    ("fault.cow", "copy", CORE + "do_fault copy_mc_to_kernel"),
    ("fault.zero", "zero", CORE + "do_wp_page vma_alloc_folio_noprof get_page_from_freelist clear_page_erms"),
    ("fault.zero", "zero", FAULT + "handle_mm_fault do_huge_zero_wp_pmd clear_huge_page clear_page_rep"),
    ("fault.zero", "zero", MAIN + "el0t_64_sync el0_da do_mem_abort do_page_fault handle_mm_fault __handle_mm_fault "
     "do_wp_page __pi_clear_page"),
    ("fault.shared", "core", CORE + "do_wp_page do_page_mkwrite ext4_page_mkwrite block_page_mkwrite"),
    ("fault.shared", "core", CORE + "do_fault do_shared_fault do_page_mkwrite xfs_filemap_page_mkwrite"),
    ("fault.swap", "core", CORE + "do_swap_page do_wp_page"),
    ("fault.swap", "sched", CORE + "migration_entry_wait schedule __schedule"),
    ("fault.numa", "core", CORE + "do_numa_page numa_migrate_check"),
    ("fault.numa", "reclaim", CORE + "do_huge_pmd_numa_page migrate_misplaced_folio migrate_pages migrate_pages_batch"),
    ("fault.reclaim", "reclaim", CORE + "do_fault __do_fault filemap_fault page_cache_ra_order filemap_add_folio "
     "__mem_cgroup_charge charge_memcg try_charge_memcg try_to_free_mem_cgroup_pages do_try_to_free_pages shrink_node "
     "shrink_lruvec shrink_folio_list"),
    ("fault.reclaim", "reclaim", CORE + "do_anonymous_page vma_alloc_folio_noprof __alloc_pages_slowpath.constprop.0 "
     "try_to_free_pages do_try_to_free_pages shrink_node"),
    ("fault.reclaim", "reclaim", CORE + "do_swap_page __mem_cgroup_charge try_charge_memcg "
     "try_to_free_mem_cgroup_pages"),
    ("fault.reclaim", "reclaim", MAIN + "asm_exc_page_fault irqentry_exit_to_user_mode __mem_cgroup_handle_over_high "
     "reclaim_high try_to_free_mem_cgroup_pages do_try_to_free_pages shrink_node"),
    ("fault.compact", "reclaim", CORE + "do_huge_pmd_anonymous_page vma_alloc_anon_folio_pmd alloc_pages_mpol "
     "__alloc_frozen_pages_noprof __alloc_pages_slowpath.constprop.0 __alloc_pages_direct_compact try_to_compact_pages "
     "compact_zone_order compact_zone"),
    ("fault.uffd", "sched", CORE + "do_anonymous_page handle_userfault schedule"),
    ("uffd.service", "copy", IOCTL + "userfaultfd_ioctl mfill_atomic copy_from_user _copy_from_user"),
    ("uffd.service", "zero", IOCTL + "userfaultfd_ioctl __mcopy_atomic alloc_pages_vma clear_page_erms"),
    ("fault.core", "core", CORE),
    ("fault.entry", "core", FAULT + "lock_vma_under_rcu mas_walk"),
    ("fault.entry", "entry", FAULT),
    ("populate", "zero", SYSCALL + "__x64_sys_mmap ksys_mmap_pgoff vm_mmap_pgoff __mm_populate "
     "populate_vma_page_range __get_user_pages handle_mm_fault __handle_mm_fault do_anonymous_page clear_page_erms"),
    ("populate", "other", SYSCALL + "__x64_sys_mlock do_mlock mlock_fixup"),
    ("populate", "core", SYSCALL + "__x64_sys_fallocate vfs_fallocate shmem_fallocate shmem_get_folio_gfp"),
    ("pin.faultin", "core", PIN + "handle_mm_fault __handle_mm_fault do_fault __do_fault shmem_fault "
     "shmem_get_folio_gfp"),
    ("pin.faultin", "core", URING + "io_pin_pages gup_fast_fallback __gup_longterm_locked __get_user_pages "
     "handle_mm_fault __handle_mm_fault do_fault __do_fault shmem_fault"),
    ("pin.faultin", "copy", PIN + "handle_mm_fault __handle_mm_fault do_wp_page wp_page_copy copy_page"),
    ("pin.faultin", "core", SYSCALL + "__x64_sys_process_vm_readv process_vm_rw process_vm_rw_core "
     "pin_user_pages_remote __get_user_pages handle_mm_fault"),
    ("pin.walk", "pte", PIN + "follow_page_pte try_grab_folio"),
    ("pin.walk", "pte", URING + "io_pin_pages gup_fast_fallback gup_fast_pte_range"),
    ("pin.walk", "core", URING + "io_pin_pages internal_get_user_pages_fast lockless_pages_from_mm"),
    ("pin.migrate", "reclaim", LOCK + "pin_user_pages __gup_longterm_locked check_and_migrate_movable_pages "
     "migrate_longterm_unpinnable_folios migrate_pages"),
    ("pin.account", "alloc", LOCK + "kvmalloc_node __kmalloc_large_node"),
    ("pin.account", "core", URING + "io_pin_pages"),
    ("pin.transient", "pte", SYSCALL + "__x64_sys_process_vm_readv process_vm_rw process_vm_rw_core "
     "pin_user_pages_remote __get_user_pages follow_page_pte"),
    ("pin.transient", "pte", SYSCALL + "__x64_sys_pread64 vfs_read blkdev_read_iter bio_iov_iter_get_pages "
     "iov_iter_extract_pages pin_user_pages_fast gup_fast_fallback gup_fast_pte_range"),
    ("unpin", "core", RM + "Nv01FreeWithSecInfo[nvidia] rmapiFreeWithSecInfo[nvidia] os_unlock_user_pages[nvidia] "
     "set_page_dirty_lock folio_mark_dirty"),
    ("unpin", "core", IOCTL + "io_uring_release io_release_ubuf unpin_user_page"),
    ("free.shmem", "alloc", SYSCALL + "exit_to_user_mode_loop task_work_run ____fput __fput dput iput evict "
     "shmem_evict_inode shmem_undo_range __folio_batch_release folios_put_refs free_unref_folios"),
    ("free.unmap", "lru_rmap", SYSCALL + "__x64_sys_munmap __vm_munmap do_vmi_munmap vms_complete_munmap_vmas "
     "unmap_vmas unmap_page_range folio_remove_rmap_ptes"),
    ("free.unmap", "tlb", SYSCALL + "__x64_sys_exit_group do_exit mmput exit_mmap tlb_finish_mmu flush_tlb_mm_range"),
    ("dma.map", "other", RM + "memdescMapIommu[nvidia] osIovaMap[nvidia] nv_dma_map_alloc[nvidia] dma_map_sg_attrs"),
    ("dma.map", "core", UVM + "uvm_api_register_gpu[nvidia_uvm] dma_map_page_attrs intel_iommu_map_pages"),
    ("dma.unmap", "core", RM + "os_unlock_user_pages[nvidia] nv_dma_unmap_alloc[nvidia] dma_unmap_sg_attrs"),
    ("dma.bounce", "copy", RM + "nv_dma_map_alloc[nvidia] dma_map_page_attrs dma_direct_map_page swiotlb_map "
     "swiotlb_bounce memcpy"),
    ("uvm.cpu_fault", "zero", CORE + "do_fault __do_fault uvm_vm_fault_entry[nvidia_uvm] "
     "uvm_va_space_cpu_fault[nvidia_uvm] uvm_va_block_cpu_fault[nvidia_uvm] __alloc_pages_noprof clear_page_erms"),
    ("uvm.cpu_fault", "gpuwait", CORE + "do_fault __do_fault uvm_vm_fault_entry.part.0[nvidia_uvm] "
     "uvm_migrate_pageable[nvidia_uvm] uvm_tracker_wait[nvidia_uvm] read_tsc"),
    ("uvm.gpu_fault", "pte", KTHREAD + "_main_loop[nvidia_uvm] "
     "replayable_faults_isr_bottom_half_entry[nvidia_uvm] uvm_parent_gpu_service_replayable_faults[nvidia_uvm] "
     "uvm_va_block_unmap[nvidia_uvm] unmap_mapping_range zap_page_range_single unmap_page_range"),
    ("uvm.migrate", "core", UVM + "uvm_api_migrate[nvidia_uvm] uvm_migrate[nvidia_uvm] "
     "uvm_va_block_migrate_locked[nvidia_uvm]"),
    ("uvm.free", "gpuwait", UVM + "uvm_api_free[nvidia_uvm] uvm_va_range_destroy[nvidia_uvm] "
     "uvm_spin_loop[nvidia_uvm]"),
    ("uvm.free", "core", SYSCALL + "__x64_sys_munmap do_vmi_munmap uvm_vm_close_managed_entry[nvidia_uvm]"),
    ("uvm.map_ext", "core", UVM + "uvm_api_map_external_allocation[nvidia_uvm] uvm_map_external[nvidia_uvm]"),
    ("uvm.setup", "core", UVM + "uvm_api_register_gpu[nvidia_uvm] uvm_parent_gpu_init_isr[nvidia_uvm]"),
    ("uvm.other", "core", UVM + "uvm_api_tools_flush_events[nvidia_uvm]"),
    ("rm.gsp_rpc", "gpuwait", RM + "rpcRmApiControl_GSP[nvidia] _issueRpcAndWait[nvidia] _kgspRpcRecvPoll[nvidia] "
     "kgspHealthCheck_TU102[nvidia] osDevReadReg032[nvidia]"),
    ("rm.sysmem", "zero", RM + "osAllocPagesInternal[nvidia] nv_alloc_pages[nvidia] nv_alloc_system_pages[nvidia] "
     "__alloc_pages clear_page_erms"),
    ("rm.isr", "other", IDLE + "asm_common_interrupt common_interrupt "
     "__handle_irq_event_percpu nvidia_isr[nvidia]"),
    ("rm.mmap", "pte", SYSCALL + "__x64_sys_mmap do_mmap mmap_region nvidia_mmap[nvidia] remap_pfn_range"),
    ("rm.free", "other", RM + "rmapiFreeWithSecInfo[nvidia] serverFreeResourceTree[nvidia]"),
    ("rm.opaque", "other", SYSCALL + "__x64_sys_ioctl nvidia_unlocked_ioctl[nvidia] _nv012345rm[nvidia]"),
    ("rm.other", "alloc", RM + "os_alloc_mem[nvidia] __kmalloc_noprof"),
    ("copy.user", "copy", MAIN + "__memmove_avx_unaligned_erms@/usr/lib/libc.so.6"),
    ("copy.staging", "copy", CUDA + "__memmove_avx_unaligned_erms@/usr/lib/libc.so.6"),
    ("copy.kernel", "copy", SYSCALL + "__x64_sys_read vfs_read shmem_file_read_iter copy_page_to_iter _copy_to_iter "
     "rep_movs_alternative"),
    ("copy.kernel", "copy", SYSCALL + "__x64_sys_read vfs_read pipe_read copy_page_to_iter _copy_to_iter"),
    ("copy.kernel", "copy", SYSCALL + "__x64_sys_read ksys_read vfs_read get_random_bytes_user _copy_to_iter"),
    ("copy.kernel", "copy", SYSCALL + "__x64_sys_write vfs_write ext4_buffered_write_iter generic_perform_write "
     "copy_folio_from_iter_atomic"),
    ("sys.io", "other", SYSCALL + "__x64_sys_read ksys_read vfs_read fuse_dev_read"),
    ("sys.io", "other", SYSCALL + "__x64_sys_pwritev2 do_pwritev vfs_writev"),
    ("sys.io.random", "other", SYSCALL + "__x64_sys_read ksys_read vfs_read get_random_bytes_user "
     "chacha_block_generic chacha_permute"),
    ("sys.io.random", "other", SYSCALL + "__x64_sys_getrandom urandom_read_nowarn extract_crng_user"),
    ("sys.io.tty", "other", SYSCALL + "__x64_sys_write ksys_write vfs_write file_tty_write n_tty_write "
     "pty_write __queue_work"),
    ("sys.io.tty", "other", SYSCALL + "__x64_sys_read vfs_read tty_read n_tty_read copy_from_read_buf"),
    ("sys.io.proc", "other", SYSCALL + "__x64_sys_read vfs_read seq_read_iter show_smap seq_put_decimal_ull_width"),
    ("sys.io.proc", "other", SYSCALL + "__x64_sys_read vfs_read proc_reg_read_iter seq_read_iter meminfo_proc_show"),
    ("sys.io.cache", "core", SYSCALL + "__x64_sys_read vfs_read ext4_file_read_iter filemap_read filemap_get_pages"),
    ("sys.io.cache", "core", SYSCALL + "__x64_sys_msync ext4_sync_file file_write_and_wait_range "
     "__filemap_fdatawrite_range"),
    ("sys.io.socket", "other", SYSCALL + "__x64_sys_sendto __sys_sendto sock_sendmsg tcp_sendmsg_locked"),
    ("sys.io.socket", "other", SYSCALL + "__x64_sys_write vfs_write sock_write_iter unix_stream_sendmsg"),
    ("sys.numa", "other", MAIN + "asm_sysvec_apic_timer_interrupt irqentry_exit_to_user_mode task_work_run "
     "task_numa_work change_prot_numa change_protection"),
    ("sys.signal", "other", FAULT + "bad_area_access_error force_sig_fault force_sig_info_to_task"),
    ("sys.signal", "other", SYSCALL + "__x64_sys_rt_sigreturn restore_sigcontext fpu__restore_sig"),
    ("free.unmap", "pte", SYSCALL + "irqentry_exit_to_user_mode arch_do_signal_or_restart get_signal do_group_exit "
     "do_exit mmput exit_mmap unmap_vmas unmap_page_range"),
    ("sync.poll", "gpuwait", CUDA + "clock_gettime@/usr/lib/libc.so.6 [vdso]@[vdso]"),
    # From an H200: a launch waits while the GPU's queue is full.
    ("sync.poll", "gpuwait", CUDA + "__sched_yield@/usr/lib/libc.so.6"),
    ("sync.poll", "gpuwait", CUDA + "__sched_yield@/usr/lib/libc.so.6 entry_SYSCALL_64_after_hwframe do_syscall_64"),
    ("sync.poll", "gpuwait", CUDA + "[libc.so.6]@/usr/lib/libc.so.6 entry_SYSCALL_64_after_hwframe do_syscall_64 "
     "__x64_sys_sched_yield do_sched_yield schedule __schedule"),
    ("sync.block", "sched", SYSCALL + "__x64_sys_clock_nanosleep hrtimer_nanosleep do_nanosleep schedule"),
    ("sync.block", "sched", SYSCALL + "__x64_sys_sched_yield do_sched_yield schedule __schedule"),
    ("sys.io.pipe", "sched", SYSCALL + "__x64_sys_write vfs_write pipe_write __wake_up_sync_key try_to_wake_up"),
    ("sync.ipc", "sched", SYSCALL + "__x64_sys_futex do_futex futex_wait schedule"),
    ("user.app", "other", MAIN),
    ("user.libcuda", "other", CUDA),
    ("user.libcuda", "other", MAIN + "libcudart_static_8b73e19b@/app"),
    ("user.python", "other", "_start@/usr/bin/python3.11 _PyEval_EvalFrameDefault@/usr/bin/python3.11"),
    ("user.python", "other", "py::train:/app/train.py@/tmp/perf-7.map"),
    ("user.malloc", "other", MAIN + "_int_malloc@/usr/lib/libc.so.6"),
    ("user.malloc", "other", MAIN + "je_arena_malloc_hard@/usr/lib/libjemalloc.so.2"),
    ("user.libc", "other", MAIN + "printf@/usr/lib/libc.so.6"),
    ("user.loader", "other", "_dl_relocate_object@/lib64/ld-linux-x86-64.so.2"),
    ("user.clock", "other", MAIN + "__vdso_clock_gettime@[vdso]"),
    ("user.unknown", "other", MAIN + "[anon]@[anon]"),
    ("mm.vma", "core", SYSCALL + "__x64_sys_mprotect do_mprotect_pkey vma_modify"),
    ("mm.vma", "core", SYSCALL + "__x64_sys_mmap do_mmap __mmap_region perf_event_mmap build_id_parse_nofault "
     "__filemap_get_folio filemap_get_entry"),
    ("sys.proc", "core", SYSCALL + "__x64_sys_execve bprm_execve load_elf_binary elf_read kernel_read "
     "ext4_file_read_iter filemap_read"),
    ("sys.irq", "entry", CORE + "do_anonymous_page clear_page_erms asm_sysvec_apic_timer_interrupt "
     "sysvec_apic_timer_interrupt"),
    ("sys.idle", "sched", "common_startup_64 cpu_startup_entry do_idle default_idle_call pv_native_safe_halt"),
    ("sys.sched", "sched", "ret_from_fork_asm kthread worker_thread schedule __schedule"),
    ("sys.entry", "entry", SYSCALL + "__x64_sys_getpid"),
    ("sys.proc", "core", SYSCALL + "__x64_sys_execve do_execveat_common load_elf_binary vma_link"),
    ("sys.reclaim", "reclaim", "ret_from_fork_asm kthread kswapd balance_pgdat shrink_node"),
    ("mm.vma", "other", SYSCALL + "__do_sys_mremap do_mremap shrink_vma"),
    ("mm.vma", "core", SYSCALL + "__x64_sys_mmap vm_mmap_pgoff do_mmap __mmap_region khugepaged_enter_vma"),
    ("other.kernel", "other", SYSCALL + "__x64_sys_openat do_sys_openat2 path_openat"),
    ("other.driver", "other", IOCTL + "drm_ioctl[drm]"),
    ("lost.nostack", "other", ""),
]  # fmt: skip

SLEEP = "__x64_sys_clock_nanosleep hrtimer_nanosleep do_nanosleep schedule"
POLL = "__x64_sys_poll do_sys_poll schedule_hrtimeout_range schedule"
FUTEX = "__x64_sys_futex do_futex futex_wait __futex_wait futex_do_wait schedule"
READ = "__x64_sys_read ksys_read vfs_read "
FSYNC = SYSCALL + "__x64_sys_fsync do_fsync ext4_sync_file "
LIBCUDA = "@/usr/lib/libcuda.so.580.159.04 "
THREAD = "clone3@/usr/lib/libc.so.6 start_thread@/usr/lib/libc.so.6 "
FORK = SYSCALL + "__do_sys_clone kernel_clone copy_process "
ENTER = "entry_SYSCALL_64_after_hwframe do_syscall_64 "

WAITS = [
    ("wait.gpu", MAIN + "cudaStreamSynchronize@/app cuStreamSynchronize" + LIBCUDA + "poll@/usr/lib/libc.so.6 "
     + ENTER + POLL),
    ("wait.gpu", MAIN + "[libcuda]" + LIBCUDA + "sched_yield@/usr/lib/libc.so.6 " + ENTER
     + "__x64_sys_sched_yield do_sched_yield schedule"),
    ("wait.gpu", MAIN + "cudaMemcpy@/app cuMemcpyHtoD_v2" + LIBCUDA + "[libcuda]" + LIBCUDA
     + "pthread_cond_wait@/usr/lib/libc.so.6 " + ENTER + FUTEX),
    ("wait.gpu", MAIN + "cudaStreamSynchronize@/app cuStreamSynchronize" + LIBCUDA + "poll@/usr/lib/libc.so.6"),
    # By hand from real recordings of an H200: long_pin_blocks, not_async, upload_once.
    ("wait.lock", MAIN + "cudaHostAlloc@/app cuMemHostAlloc" + LIBCUDA + "[libcuda]" + LIBCUDA
     + "pthread_rwlock_wrlock@/usr/lib/libc.so.6 [libc.so.6]@/usr/lib/libc.so.6 " + ENTER + FUTEX),
    ("wait.lock", MAIN + "cuCtxSynchronize" + LIBCUDA + "[libcuda]" + LIBCUDA
     + "pthread_mutex_lock@/usr/lib/libc.so.6 __lll_lock_wait@/usr/lib/libc.so.6 " + ENTER + FUTEX),
    ("wait.lock", MAIN + "cuInit" + LIBCUDA + "[libcuda]" + LIBCUDA + "pthread_cond_wait@/usr/lib/libc.so.6 "
     + ENTER + FUTEX),
    ("wait.lock", MAIN + "cuDevicePrimaryCtxRetain" + LIBCUDA + "[libcuda]" + LIBCUDA
     + "[libc.so.6]@/usr/lib/libc.so.6 [libc.so.6]@/usr/lib/libc.so.6 " + ENTER + FUTEX),
    ("wait.cuda_thread", THREAD + "[libcuda]" + LIBCUDA + "poll@/usr/lib/libc.so.6 " + ENTER + POLL),
    ("wait.poll", MAIN + "poll@/usr/lib/libc.so.6 " + ENTER + POLL),
    ("wait.poll", SYSCALL + "__x64_sys_io_uring_enter io_cqring_wait schedule"),
    ("wait.sleep", SYSCALL + SLEEP),
    ("wait.lock", SYSCALL + FUTEX),
    ("wait.lock", THREAD + "worker@/app pthread_cond_wait@/usr/lib/libc.so.6 " + ENTER + FUTEX),
    ("wait.disk", FSYNC + "file_write_and_wait_range __filemap_fdatawait_range folio_wait_writeback "
     "folio_wait_bit io_schedule schedule"),
    ("wait.disk", SYSCALL + READ + "ext4_file_read_iter iomap_dio_rw __iomap_dio_rw blk_io_schedule io_schedule "
     "schedule"),
    ("wait.disk", CORE + "do_fault __do_fault filemap_fault folio_wait_bit_common io_schedule schedule"),
    ("wait.ipc", SYSCALL + READ + "anon_pipe_read schedule"),
    ("wait.ipc", SYSCALL + READ + "pipe_read schedule"),
    ("wait.ipc", SYSCALL + "__x64_sys_recvfrom sock_recvmsg tcp_recvmsg sk_wait_data wait_woken "
     "schedule_timeout schedule"),
    ("wait.child", SYSCALL + "__x64_sys_wait4 kernel_wait4 do_wait schedule"),
    ("wait.child", SYSCALL + "__x64_sys_vfork kernel_clone wait_for_completion_state schedule_timeout schedule"),
    # A fork waits for no child before there is one.
    ("wait.mmap_lock", FORK + "dup_mmap down_write_killable rwsem_down_write_slowpath schedule"),
    ("wait.reclaim", FORK + "dup_mmap copy_page_range try_to_free_pages shrink_node reclaim_throttle schedule"),
    ("wait.disk", FORK + "dup_task_struct alloc_thread_stack_node io_schedule schedule"),
    ("wait.kernel", FORK + "cgroup_css_set_fork mutex_lock __mutex_lock schedule"),
    ("wait.kernel", FORK + "uprobe_start_dup_mmap percpu_rwsem_wait schedule"),
    ("wait.stopped", SYSCALL + "__x64_sys_clone kernel_clone ptrace_notify ptrace_stop schedule"),
    ("wait.child", SYSCALL + "__x64_sys_clone3 kernel_clone wait_for_completion_killable schedule"),
    ("wait.mmap_lock", FAULT + "lock_mm_and_find_vma down_read_killable rwsem_down_read_slowpath schedule"),
    ("wait.mmap_lock", SYSCALL + "__x64_sys_munmap __vm_munmap down_write_killable rwsem_down_write_slowpath schedule"),
    ("wait.kernel", SYSCALL + "__x64_sys_openat path_openat down_read rwsem_down_read_slowpath schedule"),
    ("wait.kernel", SYSCALL + "__x64_sys_membarrier synchronize_rcu __wait_rcu_gp wait_for_completion schedule"),
    ("wait.uffd", CORE + "do_anonymous_page handle_userfault schedule"),
    ("wait.reclaim", CORE + "do_anonymous_page __alloc_frozen_pages_noprof try_to_free_pages shrink_node "
     "reclaim_throttle schedule_timeout schedule"),
    ("wait.driver", RM + "os_acquire_mutex[nvidia] down __down_common schedule_timeout schedule"),
    ("wait.uvm", UVM + "uvm_api_migrate[nvidia_uvm] uvm_down_read_mmap_lock[nvidia_uvm] down_read "
     "rwsem_down_read_slowpath schedule"),
    ("wait.runnable", SYSCALL + "__x64_sys_sched_yield do_sched_yield schedule"),
    ("wait.stopped", SYSCALL + "exit_to_user_mode_loop arch_do_signal_or_restart get_signal do_signal_stop schedule"),
    ("wait.exit", SYSCALL + "__x64_sys_exit_group do_group_exit do_exit exit_mm coredump_task_exit schedule"),
    ("wait.other", SYSCALL + "__x64_sys_keyctl schedule"),
    ("lost.nostack", ""),
]  # fmt: skip


@pytest.mark.parametrize(("leaf", "stack"), WAITS, ids=[f"{number}-{row[0]}" for number, row in enumerate(WAITS)])
def test_the_stack_with_which_a_thread_left_says_what_it_waited_for(leaf: str, stack: str) -> None:
    by_leaf = [result.by_leaf for result in analyze(capture([Sample(stack.split())], events=(OFF_CPU,))).events]
    assert [part for part in by_leaf if part] == [{leaf: 1_000_000}]


def test_a_thread_that_could_have_run_on_waited_for_nothing_but_a_processor() -> None:
    taken = MAIN + "asm_sysvec_apic_timer_interrupt irqentry_exit_to_user_mode schedule"
    yields = MAIN + "[libcuda]" + LIBCUDA + "sched_yield@/usr/lib/libc.so.6 " + ENTER + "__x64_sys_sched_yield schedule"
    in_driver = MAIN + "cudaStreamSynchronize@/app cuStreamSynchronize" + LIBCUDA + taken.removeprefix(MAIN)
    stacks = (taken, SYSCALL + SLEEP, yields, in_driver)
    found = capture([Sample(stack.split()) for stack in stacks], events=(OFF_CPU,))
    found = replace(found, samples=replace(found.samples, wait=np.full(4, READY, np.uint8)))
    assert analyze(found).events[0].by_leaf == {"wait.runnable": 3_000_000, "wait.gpu": 1_000_000}


def test_the_same_stack_on_and_off_the_processors_has_two_causes() -> None:
    stack = (SYSCALL + SLEEP).split()
    found = analyze(capture([Sample(stack), Sample(stack, event=1)], events=(CLOCK, OFF_CPU)))
    assert [result.by_leaf for result in found.events] == [{"sync.block": 1_000_000}, {"wait.sleep": 1_000_000}]


@pytest.mark.parametrize(("leaf", "work", "stack"), ROWS, ids=[f"{number}-{row[0]}" for number, row in enumerate(ROWS)])
def test_the_example_stack_gets_its_leaf_and_work_attribute(leaf: str, work: str, stack: str) -> None:
    result = analyze(capture([Sample(stack.split())])).events[0]
    assert result.by_work == {leaf: {work: 1_000_000}}


def test_every_category_has_an_example() -> None:
    elsewhere = {"wait.idle", "self.probe", "lost.place"}  # test_idle.py, test_recorder.py, test_headline.py
    assert {category.name for category in CATEGORIES} == {leaf for leaf, *_ in (*ROWS, *WAITS)} | elsewhere


def test_every_work_attribute_but_lock_has_an_example() -> None:
    assert set(WORK_ATTRIBUTES) - {"lock"} == {work for _, work, _ in ROWS}


def test_leaves_are_named_once_and_belong_to_a_level() -> None:
    assert len({category.name for category in CATEGORIES}) == len(CATEGORIES)
    assert {category.level for category in CATEGORIES} == {level for level, _ in LEVELS}


def alternatives(pattern: str) -> list[str]:
    """A regular expression, split where `|` stands outside parentheses."""
    return re.split(r"\|(?![^()]*\))", pattern)


@pytest.mark.slow
def test_every_name_not_marked_unseen_is_a_function_of_the_captured_kernel_and_driver() -> None:
    names = kernel_functions()
    lines = {scope: "\n".join(known) for scope, known in names.items()}
    rows = [frames for row in CATEGORIES for frames in (*row.frames, *row.opens, *row.beneath, *row.not_beneath)]
    rows += [frames for group in (*dict(WORK).values(), HELPERS, INTERRUPT) for frames in group]
    missing = [
        name
        for frames in rows
        if frames.seen and frames.scope in names
        for name in alternatives(frames.pattern)
        if name not in names[frames.scope] and not re.search(f"^(?:{name})$", lines[frames.scope], re.MULTILINE)
    ]
    assert missing == []


def test_the_documentation_lists_every_leaf_once() -> None:
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    assert sorted(name for name, *_ in rows) == sorted(f"| `{row.name}`" for row in CATEGORIES)
    assert all(len(cells) == 4 for cells in rows), "no cell has a bar of its own"


def test_every_category_says_what_it_means_and_what_to_do() -> None:
    assert all(category.meaning and category.remedy.endswith(".") for category in CATEGORIES)


@pytest.mark.parametrize("levels", [headline.MEMORY_LEVELS, search.COSTLY_LEVELS])
def test_levels_that_a_list_names_exist(levels: tuple[str, ...]) -> None:
    assert set(levels) <= {row.level for row in CATEGORIES}
