/// A handler of the result of a background operation, called on the storage's queue.
public typealias Handler<T> = @Sendable (Result<T, any Error>) -> Void
