#if canImport(ImageIO)
public import CoreGraphics
public import Foundation
import ImageIO

/// A decoded image of Core Graphics.
public struct SystemImage: @unchecked Sendable {
    /// The image. A `CGImage` is immutable, so threads can share it.
    public let cgImage: CGImage
}

/// Decodes images with the system's codecs; of an animation, the first frame.
public struct ImageIODecoder: ImageDecoding {
    /// A problem with the bytes of an image.
    public enum Failure: Error, Hashable, Sendable {
        /// The bytes are not an image that the system knows, or its header is incomplete.
        case header
        /// The pixels could not be decoded.
        case pixels
    }

    /// Creates a decoder.
    public init() {}

    public func header(of data: Data) throws -> ImageHeader {
        let source = try source(of: data)
        let options: [String: Any] = [kCGImageSourceShouldCache as String: false]
        guard let properties = CGImageSourceCopyPropertiesAtIndex(source, 0, options as CFDictionary) as? [String: Any],
            let width = properties[kCGImagePropertyPixelWidth as String] as? Int,
            let height = properties[kCGImagePropertyPixelHeight as String] as? Int
        else { throw Failure.header }
        return ImageHeader(width: width, height: height)
    }

    public func decode(_ data: Data, to size: ImageHeader) throws -> SystemImage {
        let options: [String: Any] = [
            kCGImageSourceCreateThumbnailFromImageAlways as String: true,
            kCGImageSourceCreateThumbnailWithTransform as String: true,
            kCGImageSourceShouldCacheImmediately as String: true,
            kCGImageSourceThumbnailMaxPixelSize as String: max(size.width, size.height),
        ]
        guard let image = CGImageSourceCreateThumbnailAtIndex(try source(of: data), 0, options as CFDictionary) else {
            throw Failure.pixels
        }
        return SystemImage(cgImage: image)
    }

    private func source(of data: Data) throws -> CGImageSource {
        guard let source = CGImageSourceCreateWithData(data as CFData, nil) else { throw Failure.header }
        return source
    }
}
#endif
