import ArgumentParser

/// The stores on disk that a campaign crashes.
enum StoreKind: String, CaseIterable, ExpressibleByArgument {
    case keyValue, sharedKeyValue, file, secret, codable, image
}
