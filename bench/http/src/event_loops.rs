//! Event loops: threads that each run a tokio runtime of their own.
//!
//! A connection and its socket belong to one loop. Their tasks then wake each other without a
//! system call, and never wait for a lock that a task on another core holds. On two cores that
//! client and server share, small requests cost two thirds of the CPU time that they cost on one
//! runtime with several threads (docs/serve-measured.md).

use std::convert::Infallible;
use std::io;
use std::num::NonZeroU8;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Event loops that run until this value is dropped. Their tasks then end at once.
#[derive(Debug)]
pub struct EventLoops(Vec<EventLoop>);

#[derive(Debug)]
struct EventLoop {
    handle: Handle,
    /// The loop's thread ends when this sender is dropped.
    _stop: oneshot::Sender<Infallible>,
}

impl EventLoops {
    /// Starts this number of loops.
    ///
    /// # Errors
    /// Returns an error if the system provides no thread or no descriptor for a loop.
    pub fn start(count: NonZeroU8) -> io::Result<Self> {
        (0..count.get()).map(EventLoop::start).collect::<io::Result<_>>().map(Self)
    }

    /// Returns the number of loops.
    pub fn count(&self) -> NonZeroU8 {
        u8::try_from(self.0.len()).ok().and_then(NonZeroU8::new).unwrap_or(NonZeroU8::MIN)
    }

    /// Returns the handles of the loops.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = &Handle> {
        self.0.iter().map(|event_loop| &event_loop.handle)
    }

    /// Returns the handle of loop `index` modulo the number of loops.
    pub fn handle(&self, index: usize) -> &Handle {
        &self.0[index % self.0.len()].handle
    }
}

impl EventLoop {
    fn start(index: u8) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            let _ = runtime.block_on(stopped);
            // Do not wait for blocking tasks, because a read from a stalled disk would delay the
            // end.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }
}

/// Returns the default number of loops, which is one per core that this process may use.
pub fn cores() -> NonZeroU8 {
    std::thread::available_parallelism()
        .map_or(NonZeroU8::MIN, |cores| cores.try_into().unwrap_or(NonZeroU8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_loop_run_on_its_thread_until_it_is_dropped() {
        let loops = EventLoops::start(NonZeroU8::new(2).unwrap()).unwrap();
        let (sender, names) = std::sync::mpsc::channel();
        for index in [0, 1, 2] {
            let sender = sender.clone();
            loops.handle(index).spawn(async move {
                let name = std::thread::current().name().map(str::to_owned);
                sender.send((index, name)).unwrap();
                std::future::pending::<()>().await;
            });
        }
        drop(sender);
        let mut ran: Vec<_> = names.iter().take(3).collect();
        ran.sort();
        assert_eq!(
            ran.iter().map(|(_, name)| name.as_deref()).collect::<Vec<_>>(),
            [Some("loop-0"), Some("loop-1"), Some("loop-0")]
        );
        drop(loops);
        // Every task is dropped, and its sender with it.
        assert!(names.recv().is_err());
    }
}
