//! The memory a loop receives into, the same for all its connections.

/// As much as asyncio asks for at once.
const SIZE: usize = 256 * 1024;

/// Allocated when first used: most loops of a node may never read from a socket.
#[derive(Default)]
pub struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    pub fn get(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; SIZE];
        }
        &mut self.0
    }
}
