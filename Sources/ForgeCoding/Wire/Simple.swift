/// The first bytes of items of major type 7.
enum Simple {
    static let `false`: UInt8 = 0xF4
    static let `true`: UInt8 = 0xF5
    static let null: UInt8 = 0xF6
    static let undefined: UInt8 = 0xF7
    static let extended: UInt8 = 0xF8
    static let half: UInt8 = 0xF9
    static let float: UInt8 = 0xFA
    static let double: UInt8 = 0xFB
    static let `break`: UInt8 = 0xFF
}
