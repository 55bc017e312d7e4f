// The symbols of Apple's Security and Core Foundation that the package uses, with the types that Swift imports them with.
// `bridge` stands for toll-free bridging: `Scripts/check-apple.py` writes it for `as`. Nothing here is ever run.

public import Foundation

public typealias CFTypeRef = AnyObject
public final class CFString {}
public final class CFDictionary {}
public typealias OSStatus = Int32

public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus { 0 }
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus { 0 }
public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus { 0 }
public func SecItemDelete(_ query: CFDictionary) -> OSStatus { 0 }

public var kSecClass: CFString { CFString() }
public var kSecClassGenericPassword: CFString { CFString() }
public var kSecAttrService: CFString { CFString() }
public var kSecAttrAccount: CFString { CFString() }
public var kSecAttrAccessGroup: CFString { CFString() }
public var kSecAttrSynchronizable: CFString { CFString() }
public var kSecAttrAccessible: CFString { CFString() }
public var kSecAttrAccessibleWhenUnlocked: CFString { CFString() }
public var kSecAttrAccessibleAfterFirstUnlock: CFString { CFString() }
public var kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly: CFString { CFString() }
public var kSecAttrAccessibleWhenUnlockedThisDeviceOnly: CFString { CFString() }
public var kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString { CFString() }
public var kSecUseDataProtectionKeychain: CFString { CFString() }
public var kSecValueData: CFString { CFString() }
public var kSecReturnData: CFString { CFString() }
public var kSecReturnAttributes: CFString { CFString() }
public var kSecMatchLimit: CFString { CFString() }
public var kSecMatchLimitOne: CFString { CFString() }
public var kSecMatchLimitAll: CFString { CFString() }

public func bridge(_ dictionary: NSDictionary) -> CFDictionary { CFDictionary() }
public func bridge(_ string: CFString) -> NSString { "" }
public func bridge(_ string: Any?) -> String { "" }
