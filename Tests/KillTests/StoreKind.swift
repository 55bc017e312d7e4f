/// The stores on disk that are killed while they write.
enum StoreKind: String, CaseIterable {
    case keyValue, sharedKeyValue, batches, file, secret, codable
}
