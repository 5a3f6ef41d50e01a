//! Small numbers for large values: a state of the explorer is a handful of them.

use rustc_hash::FxHashMap;
use std::{hash::Hash, rc::Rc};

/// Gives every distinct value a number.
#[derive(Debug)]
pub struct Interner<T> {
    numbers: FxHashMap<Rc<T>, u32>,
    values: Vec<Rc<T>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), values: Vec::new() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// Returns the number of a value.
    pub fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let value = Rc::new(value);
        self.values.push(Rc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    /// Returns the value of a number that this interner gave out.
    pub fn value(&self, number: u32) -> &Rc<T> {
        &self.values[number as usize]
    }

    /// Returns how many distinct values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
