public import Foundation

/// Decodes the bytes of cached images. This package contains no codec of its own; `ImageIODecoder` uses that of Apple's
/// platforms.
public protocol ImageDecoding<Image>: Sendable {
    /// A decoded image.
    associatedtype Image: Sendable

    /// Reads the dimensions from the image's header, without decoding pixels: a few kilobytes can decode to gigabytes.
    func header(of data: Data) throws -> ImageHeader

    /// Decodes an image whose header was found acceptable.
    ///
    /// - Parameters:
    ///   - data: The bytes of the image.
    ///   - size: The size to decode to, not larger than that of the header; the proportions are those of the header.
    /// - Returns: The image with all its frames.
    /// - Throws: An error of the decoder, which is passed on.
    func decode(_ data: Data, to size: ImageHeader) throws -> Image
}
