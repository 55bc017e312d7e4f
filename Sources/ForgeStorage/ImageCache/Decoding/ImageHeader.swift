/// The dimensions of an image, from which the size of its decoded pixels follows.
public struct ImageHeader: Hashable, Sendable {
    /// The width in pixels.
    public var width: Int

    /// The height in pixels.
    public var height: Int

    /// The number of frames; more than one for an animation.
    public var frameCount: Int

    /// The size of a decoded pixel.
    public var bytesPerPixel: Int

    /// Creates a header; negative numbers become zero.
    public init(width: Int, height: Int, frameCount: Int = 1, bytesPerPixel: Int = 4) {
        self.width = max(width, 0)
        self.height = max(height, 0)
        self.frameCount = max(frameCount, 0)
        self.bytesPerPixel = max(bytesPerPixel, 0)
    }

    /// The size of all decoded frames; the greatest number if it overflows.
    public var decodedSizeInBytes: Int {
        [height, frameCount, bytesPerPixel].reduce(width) { product, factor in
            let (next, overflows) = product.multipliedReportingOverflow(by: factor)
            return overflows ? .max : next
        }
    }

    /// The dimensions scaled down, if necessary, so that neither side exceeds `length`.
    public func scaled(toFit length: Int?) -> ImageHeader {
        guard let length, length > 0, max(width, height) > length else { return self }
        let factor = Double(length) / Double(max(width, height))
        var scaled = self
        scaled.width = min(length, max(1, Int((Double(width) * factor).rounded())))
        scaled.height = min(length, max(1, Int((Double(height) * factor).rounded())))
        return scaled
    }
}
