/// A storage of bytes by key that can be read and written.
///
/// Code depends on `any Storage` and is given a ``DiskStorage`` in the app and an ``InMemoryStorage`` in its tests.
public typealias Storage = ReadableStorage & WritableStorage
