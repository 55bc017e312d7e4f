/// The stores on disk that are killed during writes.
enum StoreKind: String, CaseIterable {
    case keyValue, sharedKeyValue, batches, file, secret, codable, cache
}
