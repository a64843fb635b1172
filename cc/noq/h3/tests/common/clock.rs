//! Clock that the test controls: noq's timers fire when the test says so, however slow the machine
//! is.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use parking_lot::Mutex;

/// Runtime with tokio's tasks and sockets, and this clock's time.
#[derive(Clone, Debug)]
pub(crate) struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: Instant,
    /// Wakers of waiting timers.
    waiting: Vec<Waker>,
}

impl ManualClock {
    // The clock must start at some time.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { now: Instant::now(), waiting: Vec::new() })))
    }

    /// Advances time in small steps until `done` completes. In between, packets arrive and tasks
    /// run; the real time that they take does not matter.
    pub(crate) async fn go_until<F: Future>(&self, done: F) -> F::Output {
        let go = async {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let mut state = self.0.lock();
                state.now += Duration::from_millis(5);
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                waiting.into_iter().for_each(Waker::wake);
            }
        };
        tokio::select! {
            output = done => output,
            never = go => never,
        }
    }
}

impl Runtime for ManualClock {
    fn new_timer(&self, due: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { clock: self.clone(), due })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.0.lock().now
    }
}

#[derive(Debug)]
struct Timer {
    clock: ManualClock,
    due: Instant,
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, due: Instant) {
        self.due = due;
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.0.lock();
        if state.now >= self.due {
            return Poll::Ready(());
        }
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}
