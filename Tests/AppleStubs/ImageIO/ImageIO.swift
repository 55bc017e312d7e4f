// The symbols of Image I/O and Core Foundation that the package uses, with the types that Swift imports them with.
// `bridge` stands for toll-free bridging: `Scripts/check-apple.py` writes it for `as`. Nothing here is ever run.
public import CoreGraphics
public import Foundation

public final class CFData {}
public final class CFDictionary {}
public final class CFString {}

public final class CGImageSource {}

public func CGImageSourceCreateWithData(_ data: CFData, _ options: CFDictionary?) -> CGImageSource? { nil }
public func CGImageSourceGetCount(_ source: CGImageSource) -> Int { 0 }
public func CGImageSourceCopyPropertiesAtIndex(
    _ source: CGImageSource, _ index: Int, _ options: CFDictionary?
) -> CFDictionary? { nil }
public func CGImageSourceCreateThumbnailAtIndex(
    _ source: CGImageSource, _ index: Int, _ options: CFDictionary?
) -> CGImage? { nil }

public var kCGImageSourceShouldCache: CFString { CFString() }
public var kCGImageSourceShouldCacheImmediately: CFString { CFString() }
public var kCGImageSourceCreateThumbnailFromImageAlways: CFString { CFString() }
public var kCGImageSourceCreateThumbnailWithTransform: CFString { CFString() }
public var kCGImageSourceThumbnailMaxPixelSize: CFString { CFString() }
public var kCGImagePropertyPixelWidth: CFString { CFString() }
public var kCGImagePropertyPixelHeight: CFString { CFString() }

public func unbridged(_ dictionary: CFDictionary) -> [String: Any] { [:] }
public func bridge(_ dictionary: [String: Any]) -> CFDictionary { CFDictionary() }
public func bridge(_ data: Data) -> CFData { CFData() }
public func bridge(_ string: CFString) -> String { "" }
