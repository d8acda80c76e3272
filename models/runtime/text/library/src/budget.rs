//! Limits of what a call may take: memory, and processor time, which is checked when the call allocates. A call that
//! takes more unwinds, and its caller gets a failure. The same happens to a call that panics, so that no content of a
//! file or a request can end the process.

use std::alloc::{set_alloc_error_hook, GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, set_hook, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Once;
use std::time::Duration;

pub enum Failure {
    Invalid(String),
    Exhausted(String),
    /// Failed only because too much else is going on.
    Busy(String),
    Internal(String),
}

impl Failure {
    pub fn invalid(message: impl std::fmt::Display) -> Failure {
        Failure::Invalid(message.to_string())
    }
}

pub type Outcome<T> = Result<T, Failure>;

/// The clock is read at allocations of at least CLOCKED_BYTES, and at one of CLOCKED_ALLOCATIONS of any size: a match of
/// a regular expression that was written to be slow takes some 30 ms, and allocates once.
const CLOCKED_BYTES: usize = 64 * 1024;
const CLOCKED_ALLOCATIONS: u32 = 32;
const UNLIMITED: usize = usize::MAX;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(UNLIMITED) };
    static DEADLINE: Cell<Option<Duration>> = const { Cell::new(None) };
    static ALLOCATIONS: Cell<u32> = const { Cell::new(0) };
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Processor time of this thread, so that other work on the machine does not make a call late.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is there on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Exhausted;

/// An allocator that counts what the thread of a call allocates and frees, and refuses what exceeds its budget.
struct Counting;

impl Counting {
    fn take(bytes: usize) -> bool {
        let left = LEFT.get();
        if left == UNLIMITED {
            return true;
        }
        let count = ALLOCATIONS.get().wrapping_add(1);
        ALLOCATIONS.set(count);
        let clocked = bytes >= CLOCKED_BYTES || count % CLOCKED_ALLOCATIONS == 0;
        let late = clocked && DEADLINE.get().is_some_and(|end| now() > end);
        if bytes > left || late {
            return false;
        }
        LEFT.set(left - bytes);
        true
    }

    fn give(bytes: usize) {
        let left = LEFT.get();
        if left != UNLIMITED {
            LEFT.set(left.saturating_add(bytes).min(UNLIMITED - 1));
        }
    }
}

// SAFETY: the system's allocator does the work; a refusal returns a null pointer, as the trait allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Counting::take(layout.size()) {
            System.alloc(layout)
        } else {
            std::ptr::null_mut()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Counting::take(layout.size()) {
            System.alloc_zeroed(layout)
        } else {
            std::ptr::null_mut()
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Counting::give(layout.size());
        System.dealloc(pointer, layout)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Counting::take(size) {
            return std::ptr::null_mut();
        }
        Counting::give(layout.size());
        System.realloc(pointer, layout, size)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static HOOKS: Once = Once::new();

fn set_hooks() {
    HOOKS.call_once(|| {
        // By default a refused allocation ends the process, and a panic writes to standard error.
        set_alloc_error_hook(|_| {
            LEFT.set(UNLIMITED);
            EXCEEDED.set(true);
            resume_unwind(Box::new(Exhausted));
        });
        set_hook(Box::new(|_| {}));
    });
}

fn failure_of(payload: Box<dyn Any + Send>) -> Failure {
    let said = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given");
    Failure::Internal(format!("the text library gave up: {said}"))
}

/// Runs `call`, which may allocate up to `bytes` and take about `time` of processor time.
pub fn within<T>(bytes: usize, time: Duration, call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    within_and_kept(bytes, time, call).map(|(value, _)| value)
}

/// The same, and how many bytes more this thread has allocated than freed in the call.
pub fn within_and_kept<T>(bytes: usize, time: Duration, call: impl FnOnce() -> Outcome<T>) -> Outcome<(T, isize)> {
    set_hooks();
    let allowed = bytes.min(UNLIMITED - 1);
    LEFT.set(allowed);
    DEADLINE.set(Some(now() + time));
    let result = catch_unwind(AssertUnwindSafe(call));
    let kept = allowed as isize - LEFT.replace(UNLIMITED) as isize;
    DEADLINE.set(None);
    // A library that the call uses may have caught what unwound, and made another failure of it.
    if EXCEEDED.replace(false) {
        return Err(Failure::Exhausted("takes more memory or time than it may".to_string()));
    }
    let outcome = result.unwrap_or_else(|payload| Err(failure_of(payload)));
    outcome.map(|value| (value, kept))
}

/// The most bytes of texts that this process reads at once: reading takes up to 260 times as much memory. So that large
/// texts do not keep others out, the limit is twice as high for small texts, and the smallest are not counted.
const READ_AT_ONCE: usize = 16 << 20;
const SMALL: usize = 1 << 20;
const SMALLEST: usize = 64 << 10;
static BEING_READ: AtomicUsize = AtomicUsize::new(0);

/// A text's share of READ_AT_ONCE, given back when it is dropped.
pub struct Room(usize);

impl Room {
    /// If nothing else is being read, a text of any size gets room. Fails as Busy if there is no room.
    pub fn take(bytes: usize) -> Outcome<Room> {
        if bytes <= SMALLEST {
            return Ok(Room(0));
        }
        let before = BEING_READ.fetch_add(bytes, Ordering::Relaxed);
        let room = Room(bytes);
        let most = if bytes <= SMALL { 2 * READ_AT_ONCE } else { READ_AT_ONCE };
        if before == 0 || before.saturating_add(bytes) <= most {
            return Ok(room);
        }
        Err(Failure::Busy(format!("texts of {before} bytes are being read, too many to read one of {bytes}; try again")))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        BEING_READ.fetch_sub(self.0, Ordering::Relaxed);
    }
}
