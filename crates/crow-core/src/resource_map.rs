//! Values of any type that a program passes to its tools.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Values by their type. They live as long as the session and are not saved with it.
#[derive(Default)]
pub struct ResourceMap {
    values: RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl ResourceMap {
    /// Inserts a value and replaces the previous one of its type.
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of that type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.get(&TypeId::of::<T>()).cloned().and_then(|value| value.downcast().ok())
    }

    /// Returns true if there is a value of that type.
    pub fn contains<T: Send + Sync + 'static>(&self) -> bool {
        self.get::<T>().is_some()
    }

    /// Removes and returns the value of that type.
    pub fn remove<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.remove(&TypeId::of::<T>()).and_then(|value| value.downcast().ok())
    }
}

impl fmt::Debug for ResourceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "ResourceMap({} values)", values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type_until_it_is_removed() {
        let map = ResourceMap::default();
        map.insert(7_u32);
        map.insert("text".to_owned());
        assert_eq!(map.get::<u32>().as_deref(), Some(&7));
        assert!(map.contains::<String>());
        assert_eq!(map.remove::<u32>().as_deref(), Some(&7));
        assert!(!map.contains::<u32>());
    }
}
