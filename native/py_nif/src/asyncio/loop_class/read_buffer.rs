//! The memory into which a loop receives, the same for all its connections.

/// As much as asyncio requests at once.
pub const READ_SIZE: usize = 256 * 1024;

/// Allocated when first used: most loops of a node may never read from a socket.
#[derive(Default)]
pub struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    /// The first `size` bytes of it.
    pub fn get(&mut self, size: usize) -> &mut [u8] {
        if self.0.len() < size {
            self.0 = vec![0; size];
        }
        &mut self.0[..size]
    }
}
