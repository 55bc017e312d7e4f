// The handful of symbols of Apple's Security and Core Foundation that SystemKeychain.swift uses, with the types that
// the SDK's Swift interface gives them, so that the file can be type-checked where there is no SDK. Toll-free bridging
// is played by making both sides one type. Nothing here is ever run.

public import Foundation

public typealias CFTypeRef = AnyObject
public typealias CFString = NSString
public typealias CFDictionary = NSDictionary
public typealias OSStatus = Int32

public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus { 0 }
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus { 0 }
public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus { 0 }
public func SecItemDelete(_ query: CFDictionary) -> OSStatus { 0 }

public var kSecClass: CFString { "" }
public var kSecClassGenericPassword: CFString { "" }
public var kSecAttrService: CFString { "" }
public var kSecAttrAccount: CFString { "" }
public var kSecAttrAccessGroup: CFString { "" }
public var kSecAttrSynchronizable: CFString { "" }
public var kSecAttrAccessible: CFString { "" }
public var kSecAttrAccessibleWhenUnlocked: CFString { "" }
public var kSecAttrAccessibleAfterFirstUnlock: CFString { "" }
public var kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly: CFString { "" }
public var kSecAttrAccessibleWhenUnlockedThisDeviceOnly: CFString { "" }
public var kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString { "" }
public var kSecUseDataProtectionKeychain: CFString { "" }
public var kSecValueData: CFString { "" }
public var kSecReturnData: CFString { "" }
public var kSecReturnAttributes: CFString { "" }
public var kSecMatchLimit: CFString { "" }
public var kSecMatchLimitOne: CFString { "" }
public var kSecMatchLimitAll: CFString { "" }
