//! Runs in real time: the executor's loop with the wall clock and the kernel's sockets.

use std::io;
use std::task::Waker;
use std::time::Duration;

use fathom_units::Time;

use super::real_time::{KernelLink, Punctuality, RealTime};
use crate::sim::{Ended, Executor, MainTask};

/// Maximum number of events that a real-time run handles between two checks of its sockets.
const IN_A_ROW: u32 = 32;
/// Time by which events may be early, so that several events are handled together. Each wait takes
/// 50 µs of CPU time in User-Mode Linux.
const TOGETHER: Duration = Duration::from_micros(250);
/// Longest wait. If nothing else happens for this long, packets that are still in transit are lost.
const PATIENCE: Duration = Duration::from_secs(2);

impl Executor {
    /// Switches the run to wall-clock time. Its datagrams cross the kernel's loopback on their way
    /// into the network and out of it. All sockets must exist before this call.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a socket.
    pub(crate) fn through_loopback(&mut self) -> io::Result<()> {
        let sim = self.sim();
        let mut core = sim.core();
        core.real = Some(Box::new(RealTime::edges(core.net.sockets.len())?));
        Ok(())
    }

    /// Switches the run to wall-clock time and replaces these links by links of the kernel.
    ///
    /// # Errors
    /// Returns an error if a socket cannot be used.
    pub(crate) fn through_kernel_links(&mut self, links: Vec<KernelLink>) -> io::Result<()> {
        self.sim().core().real = Some(Box::new(RealTime::links(links)?));
        Ok(())
    }

    /// Returns how well the machine kept up with a real-time run; `None` in virtual time.
    pub fn punctuality(&self) -> Option<Punctuality> {
        self.sim().core().real.as_ref().map(|real| real.punctuality())
    }

    /// Handles events when the wall clock has reached their time, and receives datagrams between
    /// them. If the machine is late for a moment, the network's time is equally late, so links
    /// behave as usual.
    pub(crate) fn run_in_real_time(
        &mut self,
        main: &mut Option<MainTask<'_>>,
        limit: Time,
    ) -> Ended {
        let sim = self.sim();
        let mut ready = Vec::new();
        let mut wall = sim.core().wall();
        let mut in_a_row = 0;
        loop {
            if let Some(ended) = self.poll_tasks_and_flags(main) {
                return ended;
            }
            let mut core = sim.core();
            if wall > limit {
                core.now = core.now.max(limit);
                return Ended::TimeLimit;
            }
            let next = core.next_event();
            let wakers = if !ready.is_empty() {
                core.now = core.now.max(next.map_or(wall, |next| wall.min(next)));
                core.receive_ready(&mut ready)
            } else if let Some(at) = next.filter(|at| *at <= wall + TOGETHER && in_a_row < IN_A_ROW)
            {
                in_a_row += 1;
                core.record_lateness(wall.since(at));
                core.dispatch().into_iter().collect()
            } else {
                in_a_row = 0;
                let last = next.is_none();
                if last && !core.in_transit() {
                    return Ended::Idle;
                }
                let until = next.map_or(PATIENCE, |at| at.since(wall));
                core.wait(until.min(PATIENCE), &mut ready);
                wall = core.wall();
                if last && ready.is_empty() {
                    core.abandon_in_transit();
                }
                Vec::new()
            };
            sim.set_clock(wall.max(core.now));
            drop(core);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}
