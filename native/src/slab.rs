//! Items with numbers that stay the same while others come and go; the numbers of those that left are used again.

use std::ops::{Index, IndexMut};

pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Return the number that the next item gets.
    pub fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.items.len())
    }

    /// Add an item; return its number.
    pub fn put(&mut self, item: T) -> usize {
        let number = self.next();
        if self.free.pop().is_some() {
            self.items[number] = Some(item);
        } else {
            self.items.push(Some(item));
        }
        number
    }

    /// Remove and return an item, which must be there.
    pub fn take(&mut self, number: usize) -> T {
        self.free.push(number);
        self.items[number].take().expect("it was added")
    }

    /// Return more than the highest number of an item.
    pub fn end(&self) -> usize {
        self.items.len()
    }

    /// Return all items, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let items = self.items.iter().enumerate();
        items.filter_map(|(number, item)| Some((number, item.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().flatten()
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        self.items[number].as_ref().expect("it was added")
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.items[number].as_mut().expect("it was added")
    }
}
