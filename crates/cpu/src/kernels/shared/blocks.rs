//! Blocks of a slice, for threads to write.

use std::marker::PhantomData;
use std::sync::atomic::AtomicUsize;

use super::take;
use crate::kernels::apart::Apart;

/// Hands out the columns of blocks of a slice `[repeats][count][block]`, each once: the heads of a
/// cache, whose blocks are `[page][head]`, or with one repeat plainly its blocks.
#[derive(Debug)]
pub struct BlockQueue<'a, T> {
    values: *mut T,
    /// Values of the slice.
    total: usize,
    count: usize,
    block: usize,
    next: Apart<AtomicUsize>,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for an exclusive borrow of the slice, and `next` gives each block to one thread.
unsafe impl<T: Send> Sync for BlockQueue<'_, T> {}

impl<'a, T> BlockQueue<'a, T> {
    /// Of a slice of `[repeats][count][block]` values.
    pub fn new(values: &'a mut [T], count: usize, block: usize) -> BlockQueue<'a, T> {
        let (total, values) = (values.len(), values.as_mut_ptr());
        BlockQueue { values, total, count, block, next: Apart::default(), borrow: PhantomData }
    }

    /// How many there are in all.
    pub fn len(&self) -> usize {
        self.count
    }

    /// All that can be had, `at_once` taken at a time.
    pub fn in_chunks(&self, at_once: usize) -> impl Iterator<Item = Block<'_, 'a, T>> {
        let taken = std::iter::from_fn(move || take(&self.next, self.count, at_once));
        taken.flatten().map(move |index| Block { queue: self, index })
    }

    /// The next block, to the thread that asks first.
    pub fn next(&self) -> Option<Block<'_, 'a, T>> {
        self.in_chunks(1).next()
    }
}

/// One block of every repeat, owned by one thread.
#[derive(Debug)]
pub struct Block<'q, 'a, T> {
    queue: &'q BlockQueue<'a, T>,
    index: usize,
}

impl<T> Block<'_, '_, T> {
    /// Which block.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The block in one repeat.
    pub fn of(&mut self, repeat: usize) -> &mut [T] {
        let BlockQueue { values, total: len, count, block, .. } = *self.queue;
        let start = (repeat * count + self.index) * block;
        assert!(start + block <= len);
        // SAFETY: inside the slice; no other block has this index, blocks of different indices do not
        // overlap, and `&mut self` means that no other block of it is in use.
        unsafe { std::slice::from_raw_parts_mut(values.add(start), block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_handed_out_once() {
        let mut values = vec![0; 2 * 3 * 4];
        let queue = BlockQueue::new(&mut values, 3, 4);
        let mut add = |mut block: Block<i32>| {
            let index = block.index() as i32;
            for page in 0..2 {
                block.of(page as usize).iter_mut().for_each(|x| *x += 10 * page + index);
            }
        };
        add(queue.next().unwrap());
        queue.in_chunks(2).for_each(&mut add);
        assert!(queue.next().is_none());
        let expected: Vec<i32> = (0..24).map(|i| 10 * (i / 12) + i / 4 % 3).collect();
        assert_eq!(values, expected);
    }
}
