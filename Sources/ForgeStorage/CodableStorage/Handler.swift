/// What is called with the outcome of an operation that was started earlier, on whatever queue the storage says.
public typealias Handler<T> = @Sendable (Result<T, any Error>) -> Void
