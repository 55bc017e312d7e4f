extension ImageCacheManager {
    /// The decoded image that was cached as `id`, from memory if it was decoded before; nil if there is none.
    ///
    /// The size is checked before any pixel is decoded. Decoded images are kept in memory within the limits that the
    /// cache was created with, counted with all their frames; caching or deleting an image through this object removes
    /// them.
    ///
    /// - Parameters:
    ///   - id: The identifier.
    ///   - decoder: The decoder; images of different decoder types are kept apart.
    ///   - length: The maximum width and height, to which a larger image is scaled down; nil for the full size.
    ///   - maximumSizeInBytes: The maximum size of the decoded frames; 256 MiB by default.
    /// - Returns: The decoded image; nil if none was cached.
    /// - Throws: ``ImageCacheError/tooLargeToDecode(id:sizeInBytes:)``, the error of the decoder, or as
    ///   ``readCachedImage(id:)``.
    public func image<Decoder: ImageDecoding>(
        id: String, decoder: Decoder, fitting length: Int? = nil, maximumSizeInBytes: Int = 256 << 20
    ) throws -> Decoder.Image? {
        let variant = DecodedImages.Variant(decoder: ObjectIdentifier(Decoder.self), length: length)
        if let image = decoded.image(id, variant) as? Decoder.Image { return image }
        let changes = decoded.changes
        guard let cached = try readCachedImage(id: id) else { return nil }
        let size = try decoder.header(of: cached.data).scaled(toFit: length)
        guard size.decodedSizeInBytes <= maximumSizeInBytes else {
            throw ImageCacheError.tooLargeToDecode(id: id, sizeInBytes: size.decodedSizeInBytes)
        }
        let image = try decoder.decode(cached.data, to: size)
        decoded.insert(image, id, variant, sizeInBytes: size.decodedSizeInBytes, since: changes)
        return image
    }

    /// Evicts decoded images from memory until at most this size is left; their files stay.
    public func trimMemory(to sizeInBytes: Int = 0) { decoded.trim(to: sizeInBytes) }

    /// The counts and the size of the decoded images in memory.
    public var decodedStatistics: MemoryCacheStatistics { decoded.statistics }
}
