//! Counts the bytes that the process has allocated, and the allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The system's allocator with a counter.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how many bytes are allocated now, as requested: without the rounding of the system's allocator.
pub(crate) fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Returns how often memory was allocated since the start. Other programs do not change it, unlike a CPU time.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

#[expect(unsafe_code, reason = "the trait of allocators is unsafe")]
// SAFETY: the methods pass their arguments on to the system's allocator and return its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}
