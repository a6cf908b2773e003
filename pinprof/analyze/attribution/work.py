"""The work attribute: what the CPU did inside a leaf, by the innermost frame that says it.

On some hosts zeroing hides: the store drain of `rep stosb` is charged to the next locked instruction, so that
`shmem_get_folio_gfp` or a spinlock under `do_anonymous_page` holds what is really `zero`. Leaf shares survive this.
"""

from __future__ import annotations

from pinprof.analyze.attribution.categories import CLEARING, ENTRY
from pinprof.analyze.attribution.row import Frames, k, nv, uv

WORK_ATTRIBUTES = (
    "zero", "copy", "reclaim", "tlb", "memcg", "lru_rmap", "alloc", "gpuwait", "pte", "lock", "sched", "core", "entry",
    "other",
)  # fmt: skip
"""What the CPU did inside a leaf; index 13, `other`, when no frame is recognised."""

WORK: tuple[tuple[str, tuple[Frames, ...]], ...] = (
    (
        "zero",
        (
            *CLEARING,
            *nv("", "nv_mem_pool_clear_page"),
        ),
    ),
    (
        "copy",
        k(
            r"_copy_(to|from)_\w+|copy_user_\w+|rep_movs_alternative|copy_(page|folio)_(to|from)_iter\w*|mem(cpy|move)\w*"
            r"|copy_page(_regs)?|copy_mc_\w+|__memcpy\w*",
            r"copy_user_highpage|raw_copy_(to|from)_user|__arch_copy_(to|from)_user|swiotlb_bounce",
        ),
    ),
    (
        "reclaim",
        k(
            r"shrink_(?!vma)\w+|(do_)?try_to_free_\w+|try_to_compact_pages|compact_\w+|isolate_migratepages\w*|migrate_pages\w*"
            r"|__alloc_pages_direct_\w+|migrate_folio\w*|kswapd|kcompactd|isolate_\w+folios\w*"
        ),
    ),
    (
        "tlb",
        k(
            r"(__)?(native_)?flush_tlb_\w+|flush_tlb_func|tlb_(flush|finish|gather|batch|remove)_mmu\w*|__tlb_\w+"
            r"|arch_tlbbatch_flush|on_each_cpu_cond_mask|smp_call_function_many_cond|try_to_unmap_flush\w*"
        ),
    ),
    (
        "memcg",
        k(
            r"\w*mem_cgroup\w*|memcg1?_\w+|charge_memcg|try_charge\w*|uncharge_\w+|page_counter_\w+|\w*obj_cgroup\w*"
            r"|refill_stock|get_mem_cgroup_from_mm|drain_obj_stock|__memcg\w*"
        ),
    ),
    (
        "lru_rmap",
        k(
            r"folio_add_lru\w*|folio_batch_move_lru|__folio_batch_add_and_move|lru_\w+|folio_(add|remove)_\w*rmap\w*"
            r"|__folio_mod_stat|__lruvec_stat\w*|\w*mod_lruvec\w*|mod_node_page_state"
            r"|__mod_node_page_state|folio_mark_accessed|tlb_flush_rmap\w*|folio_activate|__page_cache_release"
            r"|__mod_zone_page_state|folio_lruvec\w*",
            r"page_(add|remove)_\w*rmap\w*|pagevec_lru_\w+",
        ),
    ),
    (
        "alloc",
        k(
            r"get_page_from_freelist|__alloc_(frozen_)?pages\w*|alloc_pages\w*|(__)?rmqueue\w*|__rmqueue\w*"
            r"|free_unref\w*|free_pcppages_bulk|free_frozen\w*|__free_pages\w*|__free_one_page|folios_put_refs"
            r"|release_pages|(__)?folio_alloc\w*|vma_alloc_folio\w*|shmem_alloc_folio|__kmalloc\w*"
            r"|kmalloc\w*|kmem_cache_\w+|vmalloc\w*|__vmalloc\w*|kfree|kvfree|___slab_alloc|__slab_\w+"
            r"|free_pages_and_swap_cache|__next_zones_zonelist|get_vma_policy|policy_nodemask|__folio_batch_release"
            r"|sg_alloc_\w+|__zone_watermark_ok|zone_watermark\w*|__folio_put\w*|free_pages\w*|free_large_kmalloc",
            r"prep_new_page|kvmalloc\w*",
        ),
    ),
    (
        "gpuwait",
        (
            *uv(
                r"uvm_spin_loop\w*|uvm_tracker_wait\w*|uvm_channel_\w*(wait|completed)\w*|uvm_tracker_remove_completed"
                r"|uvm_gpu_tracking_semaphore_\w+"
            ),
            *nv(
                r"_kgspRpc(RecvPoll|DrainEvents)\w*|osSpinLoop\w*|os_delay\w*|kgspHealthCheck\w*"
                r"|GspMsgQueueReceiveStatus\w*"
            ),
        ),
    ),
    (
        "pte",
        k(
            r"___?pte_offset_map\w*|pte_offset_map\w*|set_pte\w*|insert_page\w*|vm_insert_\w+|__get_locked_pte"
            r"|walk_to_pmd|follow_page_\w+|gup_fast\w*|try_grab_\w+|unmap_page_range|zap_\w+|__pte_alloc\w*"
            r"|pte_alloc_\w+|pmd_\w+|finish_fault|vm_normal_\w+|free_pgtables|free_pgd_range"
            r"|unmap_single_vma|vm_get_page_prot|pfn_pte|follow_pfn\w*|change_p\w+_range|__get_user_pages|remap_pfn\w*",
            r"gup_p.?d_range|do_set_pte|copy_p.?d_range",
        ),
    ),
    (
        "lock",
        k(
            r"(native_|__pv_)?queued_\w+_slowpath|\w*_spin_lock_slowpath|mutex_\w+|__mutex_\w+|down_(read|write)\w*"
            r"|up_(read|write)\w*|rwsem_\w+|osq_lock|folio_lock\w*|__folio_lock\w*|percpu_(down|up)_\w+|rt_mutex\w*"
        ),
    ),
    (
        "sched",
        k(
            r"schedule|__schedule|schedule_\w+|preempt_schedule\w*|try_to_wake_up|wake_up_\w+|__wake_up\w*|update_curr"
            r"|finish_task_switch|(__)?cond_resched|dequeue_\w+|enqueue_\w+|pick_next_\w+|do_idle|cpu_startup_entry"
            r"|pv_native_safe_halt|default_idle\w*|sched_\w+"
        ),
    ),
    (
        "core",
        (
            *k(
                r"(__)?handle_mm_fault|do_(\w+_)?fault|do_(anonymous|wp|swap|numa)_page|__do_fault"
                r"|shmem_\w+|filemap_\w+|lock_vma_under_rcu|mas_\w+|mtree_\w+|find_vma\w*|vma_\w+|xas_\w+"
                r"|__gup_longterm_locked|(pin|get|unpin)_user_pages?\w*|unmap_vmas|vms_\w+|do_vmi_\w+|do_mmap|exit_mmap"
                r"|(__)?mmap_region|find_lock_entries|truncate_\w+|folio_unlock|set_page_dirty\w*|folio_mark_dirty\w*"
                r"|hugetlb_\w+|mfill_\w+|io_pin_pages|io_sqe_\w+|evict|__filemap\w*|validate_page_before_insert",
                "handle_pte_fault|wp_page_copy",
            ),
            *uv(r"\w+"),
            *nv(r"os_(un)?lock_user_pages"),
        ),
    ),
    ("entry", ENTRY),
)
"""Work attributes and the frames that show them, first match; the innermost recognised frame of a stack counts."""
