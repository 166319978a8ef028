//! What a run found, as one line of JSON: bench/load.py reads it.

use crate::Failure;
use crate::latency::Latency;
use crate::sys::CpuClock;
use std::time::{Duration, Instant};

/// Measures between `start` and `finish`: time, our CPU, the server's CPU.
pub struct Meter {
    server: Option<CpuClock>,
    began: Instant,
    own_cpu: Duration,
    server_cpu: Duration,
}

impl Meter {
    pub fn start(pid: Option<libc::pid_t>) -> Result<Self, Failure> {
        let server = pid.map(CpuClock::of).transpose()?;
        Ok(Self {
            server,
            server_cpu: server.map_or(Duration::ZERO, CpuClock::now),
            own_cpu: CpuClock::OWN.now(),
            began: Instant::now(),
        })
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The line. `evenness` is the slowest connection's share of the fastest one's requests.
    pub fn finish(
        &self,
        requests: u64,
        latency: &Latency,
        evenness: f64,
    ) -> Result<String, Failure> {
        let seconds = self.began.elapsed().as_secs_f64();
        let own_cpu = CpuClock::OWN
            .now()
            .saturating_sub(self.own_cpu)
            .as_secs_f64();
        if requests == 0 {
            return Err("no request got a reply".into());
        }
        #[allow(clippy::cast_precision_loss)] // of counts far below 2^52
        let count = requests as f64;
        let cpu = self.server.map_or(String::new(), |clock| {
            let used = clock.now().saturating_sub(self.server_cpu).as_secs_f64();
            format!(r#""server_cpu_us": {:.3}, "#, used / count * 1e6)
        });
        Ok(format!(
            r#"{{"requests": {requests}, "seconds": {seconds:.6}, "rate": {:.3}, {cpu}"client_busy": {:.3}, "evenness": {evenness:.3}, "p50_us": {:.2}, "p99_us": {:.2}}}"#,
            count / seconds,
            own_cpu / seconds,
            latency.quantile_us(0.5),
            latency.quantile_us(0.99),
        ))
    }
}
