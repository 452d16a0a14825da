CREATE TABLE src (id int primary key,
 ti tinyint, tu tinyint unsigned, si smallint, su smallint unsigned, mi mediumint, mu mediumint unsigned,
 i int, iu int unsigned zerofill, bi bigint, bu bigint unsigned, y year,
 f float, d double, f2 float(7,2), d2 double(12,3),
 de decimal(30,10), dz decimal(10,2) zerofill, dn decimal(5,0), d65 decimal(65,30), b1 bit(1), b33 bit(33), b64 bit(64),
 da date, dt datetime, dt3 datetime(3), dt6 datetime(6), ts timestamp null, ts1 timestamp(1) null, ts6 timestamp(6) null,
 t time, t2 time(2), t3 time(3), t5 time(5), t6 time(6),
 c char(10), cl char(10) character set latin1, v varchar(20), v2 varchar(300), vl varchar(20) character set latin1,
 vc varchar(20) character set cp1251, vg varchar(10) character set greek collate greek_bin, vu2 varchar(10) character set ucs2,
 vu16 varchar(10) character set utf16, vu16l varchar(10) character set utf16le, vu32 varchar(10) character set utf32,
 vk varchar(10) character set keybcs2, u14 varchar(10) character set utf8mb4 collate utf8mb4_uca1400_ai_ci, c300 char(100),
 tt tinytext, tx text, mt mediumtext, lt longtext, j json,
 bn binary(6), vb varbinary(20), vb3 varbinary(300), tb tinyblob, bl blob, lb longblob,
 e enum('a','é','x,y'), el enum('a','é') character set latin1, s set('a','b','c'), s9 set('1','2','3','4','5','6','7','8','9'),
 u uuid, g geometry, p point, pg polygon,
 `we``ird %s "name"` int, gs int as (id+1) stored, gv int as (id+2) virtual, inv int invisible default 7
) CHARACTER SET utf8mb4;
INSERT INTO src (id) VALUES (1);
INSERT INTO src (id,ti,tu,si,su,mi,mu,i,iu,bi,bu,y,f,d,f2,d2,de,dz,dn,d65,b1,b33,b64,da,dt,dt3,dt6,ts,ts1,ts6,t,t2,t3,t5,t6,c,cl,v,v2,vl,vc,vg,vu2,vu16,vu16l,vu32,vk,u14,c300,tt,tx,mt,lt,j,bn,vb,vb3,tb,bl,lb,e,el,s,s9,u,g,p,pg,`we``ird %s "name"`)
VALUES (2,-128,255,-32768,65535,-8388608,16777215,-2147483648,4294967295,-9223372036854775808,18446744073709551615,2155,0.1,1e-300,12345.678,123456789.1235,
-12345678901234567890.0123456789,1.5,-99999,12345678901234567890123456789012345.123456789012345678901234567890,1,8589934591,18446744073709551615,
'9999-12-31','9999-12-31 23:59:59','2024-02-29 01:02:03.004','1000-01-01 00:00:00.000001','2038-01-19 03:14:07','2024-02-29 12:00:00.5','1970-01-01 00:00:01.000001',
'838:59:59','-838:59:58.99','-00:00:00.001','-00:00:01.00001','12:34:56.654321',
'abc  ','é€  ','日本 ','x','€œ','Привет','αβγ','日本','😀x','😀','😀','čšž','ü',repeat('😀',100),'t','日本','m',repeat('x',300),'{"a": [1, null, "é"]}',
'ab\0\0','ab\0',0xff00,'','\0','blob','é','é','a,c','1,9','123e4567-e89b-12d3-a456-426655440000',
ST_GeomFromText('POINT(1 2)',4326),ST_GeomFromText('POINT(1 2)'),ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'),5);
INSERT INTO src (id,f,d,y,da,dt,dt6,ts,ts6,t,t6,de,dz,dn,d65,e,s,el,c,bn,v,t2,b33,u,g,cl,vl,vk)
VALUES (3,3.4028234e38,-0.0,0,'0000-00-00','0000-00-00 00:00:00','2024-00-00 00:00:00.5','0000-00-00','0000-00-00','-00:00:01','00:00:00.000001',
0,0,0,-0.000000000000000000000000000001,'nonsense','','zz','','','','-00:00:00.5',0,'00000000-0000-0000-0000-000000000000',ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))'),unhex('8081'),unhex('8d9d81'),unhex('80ff'));
INSERT INTO src (id,f,d,da,t,t2,ti,i,de,d65,ts6,ts1,t5,t3) VALUES
(4,-1.17549435e-38,1.7976931348623157e308,'2024-02-00','-01:00:00','838:59:59.99',-1,-1,1,99999999999999999999999999999999999.999999999999999999999999999999,'2038-01-19 03:14:07.999999','1999-12-31 23:59:59.9','-838:59:59.00001','-838:59:59.999'),
(5,123456.789,0.1,null,null,null,0,0,-0.5,0.5,null,null,null,null),(6,16777217,1e21,null,null,null,0,0,null,null,null,null,null,null);
