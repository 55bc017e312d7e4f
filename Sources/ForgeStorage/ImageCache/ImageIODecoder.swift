#if canImport(ImageIO)
public import CoreGraphics
public import Foundation
import ImageIO

/// A decoded image of Core Graphics, with the frames of an animation.
///
/// `@unchecked Sendable`: a `CGImage` is immutable, so threads can share it.
public struct SystemImage: @unchecked Sendable {
    /// The frames; at least one.
    public let frames: [CGImage]

    /// The first frame.
    public var cgImage: CGImage { frames[0] }
}

/// Decodes images with the system's codecs, with all frames of an animation and all pages of a document.
public struct ImageIODecoder: ImageDecoding {
    /// A problem with the bytes of an image.
    private enum Failure: Error {
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
        var header = ImageHeader(width: 0, height: 0, frameCount: CGImageSourceGetCount(source))
        for index in 0..<header.frameCount {
            guard
                let properties = CGImageSourceCopyPropertiesAtIndex(source, index, options as CFDictionary)
                    as? [String: Any],
                let width = properties[kCGImagePropertyPixelWidth as String] as? Int,
                let height = properties[kCGImagePropertyPixelHeight as String] as? Int
            else { throw Failure.header }
            guard index > 0, (header.width, header.height) != (width, height) else {
                (header.width, header.height) = (width, height)
                continue
            }
            // Frames of an icon or a document differ in size and proportions: a square that holds each is safe, also
            // after scaling.
            header.width = max(header.width, header.height, width, height)
            header.height = header.width
        }
        guard header.frameCount > 0 else { throw Failure.header }
        return header
    }

    public func decode(_ data: Data, to size: ImageHeader) throws -> SystemImage {
        let options: [String: Any] = [
            kCGImageSourceCreateThumbnailFromImageAlways as String: true,
            kCGImageSourceCreateThumbnailWithTransform as String: true,
            kCGImageSourceShouldCacheImmediately as String: true,
            kCGImageSourceThumbnailMaxPixelSize as String: max(size.width, size.height),
        ]
        let source = try source(of: data)
        let frames = try (0..<CGImageSourceGetCount(source)).map { index in
            guard let image = CGImageSourceCreateThumbnailAtIndex(source, index, options as CFDictionary) else {
                throw Failure.pixels
            }
            return image
        }
        // The header was read from the same bytes.
        guard !frames.isEmpty, frames.count <= size.frameCount else { throw Failure.pixels }
        return SystemImage(frames: frames)
    }

    private func source(of data: Data) throws -> CGImageSource {
        guard let source = CGImageSourceCreateWithData(data as CFData, nil) else { throw Failure.header }
        return source
    }
}
#endif
